"""Access tokens that an attacker, or a wrong issuer, could send; and an issuer that changes its keys or is down."""

import asyncio
import base64
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_encode
from pydantic import SecretStr

from outlast.api.settings import ApiSettings
from outlast.cli.checks.components import check_issuer
from tests.support.http.api_client import bearer
from tests.support.http.issuer import LocalIssuer, SigningKey, running_issuer
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

AUDIENCE = "https://outlast.example/mcp"
SECRET_WORD = "kept-out-of-logs"
KEY = "bob-0123456789abcdef"
TRIES = 40


@pytest.fixture
async def issuer() -> AsyncIterator[LocalIssuer]:
    async with running_issuer() as issuer:
        yield issuer


@asynccontextmanager
async def served(data_dir: Path, issuer: LocalIssuer, *, tries: int) -> AsyncIterator[httpx.AsyncClient]:
    settings = ApiSettings(
        data_dir=data_dir,
        seal_keys=SecretStr(SEAL_KEYS),
        api_keys=SecretStr(f"bob:{KEY}"),
        oauth_issuer=issuer.url,
        oauth_audience=AUDIENCE,
        audit_file=data_dir / "audit.jsonl",
        failed_credentials_per_minute=tries,
        default_actors="",
    )
    async with serving_api(await connect(f"127.0.0.1:{free_port()}", lazy=True), settings) as serving:
        yield serving


@pytest.fixture
async def api(tmp_path: Path, issuer: LocalIssuer) -> AsyncIterator[httpx.AsyncClient]:
    async with served(tmp_path, issuer, tries=TRIES) as serving:
        yield serving


@pytest.fixture
async def patient_api(tmp_path: Path, issuer: LocalIssuer) -> AsyncIterator[httpx.AsyncClient]:
    async with served(tmp_path, issuer, tries=1_000) as serving:
        yield serving


async def status(api: httpx.AsyncClient, token: str) -> int:
    return (await api.get("/v1/providers", headers=bearer(token))).status_code


def encoded(part: dict[str, Any]) -> str:
    return base64url_encode(json.dumps(part).encode()).decode()


def unsigned(claims: dict[str, Any], **header: Any) -> str:
    return f"{encoded({'alg': 'none', **header})}.{encoded(claims)}."


def nested(depth: int) -> str:
    header = '{"alg":"ES256","x":' + "[" * depth + "]" * depth + "}"
    return base64.urlsafe_b64encode(header.encode()).decode().rstrip("=") + ".e30.c2ln"


def signed_with_the_public_key(issuer: LocalIssuer) -> str:
    """As if the public key were a shared secret: HS256, which some verifiers fall for."""
    public = issuer.keys[0].private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, claims = jwt.encode(said(issuer), "x" * 32, "HS256", headers={"kid": issuer.keys[0].id}).split(".")[:2]
    signature = hmac.digest(public, f"{head}.{claims}".encode(), "sha256")
    return f"{head}.{claims}.{base64url_encode(signature).decode()}"


def said(issuer: LocalIssuer, **changed: Any) -> dict[str, Any]:
    return issuer.claims(AUDIENCE, "outlast:read", word=SECRET_WORD, **changed)


def made(**changed: Any) -> Callable[[LocalIssuer], str]:
    return lambda issuer: issuer.keys[0].sign(said(issuer, **changed))


def timed(**seconds: int) -> Callable[[LocalIssuer], str]:
    """With times so many seconds from when it is made."""

    def token(issuer: LocalIssuer) -> str:
        now = int(time.time())
        return made(**{name: now + value for name, value in seconds.items()})(issuer)

    return token


def written(**literals: str) -> Callable[[LocalIssuer], str]:
    """With claims as this JSON, which no Python value is written as."""

    def token(issuer: LocalIssuer) -> str:
        rest = {name: value for name, value in said(issuer).items() if name not in literals}
        own = ", ".join(f'"{name}": {literal}' for name, literal in literals.items())
        payload = f"{json.dumps(rest)[:-1]}, {own}}}".encode()
        key = issuer.keys[0]
        return jwt.PyJWS().encode(payload, key.private, key.algorithm, {"kid": key.id, "typ": "at+jwt"})

    return token


def headed(**header: Any) -> Callable[[LocalIssuer], str]:
    return lambda issuer: issuer.keys[0].sign(said(issuer), **header)


def numbered_key(issuer: LocalIssuer) -> str:
    """The library would not write such a header."""
    key, header = issuer.keys[0], encoded({"alg": "ES256", "typ": "at+jwt", "kid": 7})
    signed = f"{header}.{encoded(said(issuer))}"
    signature = jwt.get_algorithm_by_name("ES256").sign(signed.encode(), key.private)
    return f"{signed}.{base64url_encode(signature).decode()}"


NO_TIMES = (
    "true",
    '"soon"',
    '"99999999999"',
    "NaN",
    "Infinity",
    "1e400",
    "-1",
    "-1e400",
    "1e300",
    "9" * 400,
    "[1]",
    "{}",
)
WHY = "must be a number of seconds"

WRONG: dict[str, tuple[Callable[[LocalIssuer], str], str]] = {
    "no algorithm": (lambda issuer: unsigned(said(issuer)), "not signed with one of"),
    "no algorithm, with the key's id": (
        lambda issuer: unsigned(said(issuer), kid=issuer.keys[0].id, typ="at+jwt"),
        "not signed with one of",
    ),
    "the public key as shared secret": (signed_with_the_public_key, "not signed with one of"),
    "another key with the same id": (
        lambda issuer: SigningKey(key_id=issuer.keys[0].id).sign(said(issuer)),
        "not signed by the authorization server",
    ),
    "a key in the header": (
        lambda issuer: (key := SigningKey()).sign(said(issuer), jwk=key.public, jku="http://127.0.0.1:1/keys"),
        "a key that the authorization server does not have",
    ),
    "another algorithm of the key": (
        lambda issuer: SigningKey("EdDSA", issuer.keys[0].id).sign(said(issuer)),
        "a key that the authorization server does not have",
    ),
    "changed claims": (
        lambda issuer: ".".join(
            (
                (parts := made()(issuer).split("."))[0],
                encoded(said(issuer, sub="root")),
                parts[2],
            )
        ),
        "not signed by the authorization server",
    ),
    "an extension that must be understood": (headed(crit=["b64"], b64=False), "not a well-formed"),
    "an unknown extension that must be understood": (headed(crit=["x"], x=1), "not a well-formed"),
    "what a lenient decoder passes over": (lambda issuer: made()(issuer) + "=!", "not a well-formed access token"),
    "an id token": (headed(typ="logout+jwt"), "no access token"),
    "wrong audience": (made(aud="https://other.example/mcp"), "another server"),
    "no audience": (made(aud=None), "no claim `aud`"),
    "wrong issuer": (made(iss="https://evil.example"), "another issuer"),
    "issuer with a slash": (lambda issuer: made(iss=issuer.url + "/")(issuer), "another issuer"),
    "no issuer": (made(iss=None), "no claim `iss`"),
    "no subject": (made(sub=None), "no claim `sub`"),
    "a subject that is no name": (made(sub="ann\nroot"), "subject"),
    "a subject that is too long": (made(sub="a" * 151), "subject"),
    "no expiry": (made(exp=None), "no claim `exp`"),
    **{f"an expiry of {text}": (written(exp=text), f"`exp` {WHY}") for text in NO_TIMES},
    **{f"made at {text}": (written(iat=text), f"`iat` {WHY}") for text in NO_TIMES},
    **{f"not before {text}": (written(nbf=text), f"`nbf` {WHY}") for text in NO_TIMES},
    "an expiry of null": (written(exp="null"), "no claim `exp`"),
    "an expiry in milliseconds": (written(exp="1790000000000"), f"`exp` {WHY}"),
    "an expiry in two years": (timed(exp=2 * 366 * 86_400), "ends too late"),
    "an audience that is a number": (made(aud=7), "another server"),
    "an audience among other things": (made(aud=[AUDIENCE, 7]), "another server"),
    "an audience in an object": (made(aud={AUDIENCE: True}), "another server"),
    "a list of issuers": (lambda issuer: written(iss=json.dumps([issuer.url]))(issuer), "another issuer"),
    "a subject that is a number": (written(sub="248289761001"), "subject"),
    "a list of subjects": (written(sub='["ann"]'), "subject"),
    "no text as the key's id": (numbered_key, "not a well-formed"),
    "expired": (timed(exp=-60), "has expired"),
    "not yet valid": (timed(nbf=60), "not valid yet"),
    "made in the future": (timed(iat=60), "not valid yet"),
    "bound to a key": (made(cnf={"jkt": "x"}), "bound to a key"),
    "huge": (lambda issuer: made()(issuer) + "A" * 20_000, "longer than"),
    "huge and well-formed": (made(filler="A" * 20_000), "longer than"),
    "deeply nested": (lambda _: nested(3_000), "not a well-formed access token"),
    "encrypted (JWE)": (
        lambda _: f"{encoded({'alg': 'RSA-OAEP', 'enc': 'A256GCM'})}.a.b.c.d",
        "not a well-formed access token",
    ),
    "not a JWT at all": (lambda _: "some.opaque-token", "not a well-formed access token"),
    "no JSON": (lambda _: "eyJ.eyJ.eyJ", "not a well-formed access token"),
}


async def test_wrong_tokens_are_refused_recorded_and_quoted_nowhere(
    patient_api: httpx.AsyncClient, issuer: LocalIssuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = patient_api
    caplog.set_level(logging.DEBUG)
    assert await status(api, made()(issuer)) == 200
    wrong: list[str] = []
    for name, (token, reason) in WRONG.items():
        text = token(issuer)
        answer = await api.get("/v1/providers", headers=bearer(text))
        challenge = answer.headers.get("www-authenticate", "")
        if answer.status_code != 401 or reason not in answer.json()["detail"]:
            wrong.append(f"{name}: {answer.status_code} {answer.text}")
        if 'error="invalid_token"' not in challenge or f"{AUDIENCE[:-4]}/.well-known/oauth-protected" not in challenge:
            wrong.append(f"{name}: {challenge}")
        kept = answer.text + challenge + caplog.text
        if any(len(part) > 3 and part in kept for part in (*text.split("."), SECRET_WORD)):
            wrong.append(f"{name}: quoted")
    assert not wrong, "\n".join(wrong)
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    refused = [record for record in records if record["event"] == "credentials.refused"]
    assert len(refused) == len(WRONG)
    assert {record["remote"] for record in refused} == {"127.0.0.1"}
    assert sum("has expired" in record["detail"] for record in refused) == 1
    assert "eyJ" not in (tmp_path / "audit.jsonl").read_text()
    # Times may have fractions, as the specification says, and a year is not too long.
    assert await status(api, written(exp=f"{time.time() + 60:.3f}", iat=f"{time.time():.3f}")(issuer)) == 200
    assert await status(api, timed(exp=365 * 86_400)(issuer)) == 200
    assert await status(api, made(aud=["https://other.example", AUDIENCE])(issuer)) == 200
    # Within the clock's skew both ends count.
    assert await status(api, timed(exp=-10, nbf=20)(issuer)) == 200


@pytest.mark.parametrize("separator", ["\t", "\n", "\u00a0", "\u2003", "\x1c", ","])
async def test_scopes_are_separated_by_spaces_only(api: httpx.AsyncClient, issuer: LocalIssuer, separator: str) -> None:
    """A word that a user chose, as the name of a group, must not become two."""
    refused = issuer.token(AUDIENCE, f"group:a{separator}outlast:read")
    assert await status(api, refused) == 403
    assert await status(api, issuer.token(AUDIENCE, "", scp=[f"group outlast:read{separator}"])) == 403
    assert await status(api, issuer.token(AUDIENCE, "  group:a  outlast:read ")) == 200


async def test_forged_key_ids_cost_the_issuer_few_requests_their_address_its_tries_and_others_nothing(
    api: httpx.AsyncClient, issuer: LocalIssuer
) -> None:
    good = made()(issuer)
    assert await status(api, good) == 200
    forged = [SigningKey(key_id=f"forged-{n}").sign(said(issuer)) for n in range(2 * TRIES)]
    answers = await asyncio.gather(*(status(api, token) for token in forged))
    # Tries come back with time, so a slow machine allows a few more.
    assert (answers.count(401) >= TRIES, answers.count(429) > TRIES // 2) == (True, True)
    assert answers.count(401) + answers.count(429) == len(forged)
    assert issuer.reads["keys"] <= 10
    # Whoever was good before is not held back, and neither is an API key.
    assert (await status(api, good), await status(api, KEY)) == (200, 200)


async def test_expired_tokens_use_up_no_tries(api: httpx.AsyncClient, issuer: LocalIssuer) -> None:
    old = [made(exp=int(time.time()) - 60, jti=str(n))(issuer) for n in range(2 * TRIES)]
    assert {await status(api, token) for token in old} == {401}
    assert await status(api, made()(issuer)) == 200


async def test_a_new_key_counts_at_once_and_known_keys_outlive_an_issuer_that_is_down(
    api: httpx.AsyncClient, issuer: LocalIssuer
) -> None:
    issuer.status = 500
    answer = await api.get("/v1/providers", headers=bearer(made()(issuer)))
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:outlast:problem:issuer-unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert await status(api, KEY) == 200

    issuer.status = 200
    known = issuer.keys[0]
    assert await status(api, made()(issuer)) == 200
    new = SigningKey("RS256")
    issuer.keys = [new, known]
    assert await status(api, made()(issuer)) == 200
    assert issuer.reads["keys"] == 2

    issuer.status = 503
    for key, expected in ((new, 200), (known, 200), (SigningKey(), 503)):
        assert await status(api, key.sign(said(issuer))) == expected


async def test_doctor_checks_the_issuer_and_that_clients_find_it(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_OAUTH_ISSUER", issuer.url + "/")
    monkeypatch.setenv("OUTLAST_OAUTH_AUDIENCE", f"http://127.0.0.1:{free_port()}/mcp")
    wrong = await check_issuer()
    assert (wrong.health, "names another issuer" in wrong.finding) == ("fail", True)
    monkeypatch.setenv("OUTLAST_OAUTH_ISSUER", issuer.url)
    hidden = await check_issuer()
    assert (hidden.health, "1 key" in hidden.finding, "the proxy" in (hidden.advice or "")) == ("warn", True, True)
    issuer.keys = []
    assert "cannot be used" in (await check_issuer()).finding
    monkeypatch.delenv("OUTLAST_OAUTH_ISSUER")
    assert (await check_issuer()).health == "skip"
