"""The key ring of this process, from its settings."""

from activities.secrets import SealError, SecretSealer
from worker.settings import Settings


def sealer_from(settings: Settings) -> SecretSealer:
    """Read the key ring. Raises `SealError` when none is configured: API and worker must share one."""
    if settings.seal_keys is not None:
        return SecretSealer.from_text(settings.seal_keys.get_secret_value())
    path = settings.seal_keys_file or settings.data_dir / "seal.keys"
    if not path.exists():
        raise SealError(
            f"There is no sealing key in {path}. Set OUTLAST_SEAL_KEYS or OUTLAST_SEAL_KEYS_FILE "
            "(one line `KEYID:base64 of 32 random bytes`), the same for API and worker."
        )
    return SecretSealer.from_file(path)
