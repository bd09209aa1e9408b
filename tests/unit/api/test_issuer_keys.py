"""How long the keys of an issuer are remembered, and how often the issuer is asked, with a clock of the test's own."""

import asyncio

import pytest

from outlast.api.access.oauth.access_tokens import IssuerError, IssuerKeys, KeySet
from outlast.api.errors import IssuerUnavailable
from tests.support.http.issuer import SigningKey

DAY_SECONDS = 86_400


class Published:
    """The keys of an issuer, which may be down, and how often they were read."""

    def __init__(self) -> None:
        self.keys = [SigningKey(key_id="first")]
        self.is_down = False
        self.reads = 0
        self.now = 0.0
        self.known = IssuerKeys(self._read, clock=lambda: self.now)

    async def _read(self) -> KeySet:
        self.reads += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise IssuerError("down")
        return KeySet.parse({"keys": [key.public for key in self.keys]})

    async def has(self, key_id: str | None) -> bool:
        return await self.known.find(key_id, "ES256") is not None


async def test_known_keys_are_read_again_in_the_background_and_work_for_a_day_while_the_issuer_is_down() -> None:
    issuer = Published()
    assert await asyncio.gather(*(issuer.has("first") for _ in range(50))) == 50 * [True]
    assert issuer.reads == 1
    issuer.now, issuer.keys = 601, [SigningKey(key_id="second")]
    # Whoever comes first waits for nothing; then the removed key is gone.
    assert await issuer.has("first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (issuer.reads, await issuer.has("first"), await issuer.has("second")) == (2, False, True)
    issuer.is_down = True
    issuer.now += DAY_SECONDS - 1
    assert await issuer.has("second")
    issuer.now += 2
    with pytest.raises(IssuerUnavailable):
        await issuer.has("second")
    issuer.is_down = False
    issuer.now += 10
    assert await issuer.has("second")


async def test_unknown_key_ids_cost_a_few_reads_and_then_one_in_ten_seconds() -> None:
    issuer = Published()
    assert await issuer.has("first")
    for start in range(0, 300, 10):
        assert not any(await asyncio.gather(*(issuer.has(f"forged-{start + n}") for n in range(10))))
    assert issuer.reads == 5
    issuer.now += 10
    issuer.keys.append(SigningKey(key_id="second"))
    assert (await issuer.has("second"), issuer.reads) == (True, 6)
    # A token without a key id needs a key set in which there is no doubt.
    assert not await issuer.has(None)
    issuer.is_down = True
    issuer.now += 10
    with pytest.raises(IssuerUnavailable):
        await issuer.has("forged")
    assert await issuer.has("first")


def test_keys_that_are_symmetric_for_encryption_or_for_another_algorithm_verify_nothing() -> None:
    public = SigningKey(key_id="k").public
    for keys in (
        [{"kty": "oct", "k": "AAAA", "kid": "k"}],
        [{**public, "use": "enc"}],
        [{**public, "alg": "RS256"}],
        [],
    ):
        with pytest.raises(ValueError, match="no key for an asymmetric signature"):
            KeySet.parse({"keys": keys})
    for document in ([], {}, {"keys": "none"}, None):
        with pytest.raises(ValueError, match="Key Set"):
            KeySet.parse(document)
    twice = KeySet.parse({"keys": [public, SigningKey(key_id="k").public, {"kty": "RSA", "kid": "r"}]})
    assert twice.find("k", "ES256") is None
    assert twice.find("r", "RS256") is None
