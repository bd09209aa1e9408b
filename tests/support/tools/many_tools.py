"""More tools than a connection lists."""

from outlast import tool


@tool(read_only=True)
def get_weather_forecast(city: str, days: int = 1) -> str:
    """Predict temperature and rain for a city.

    Args:
        city: Name of the city.
        days: Number of days.
    """
    return f"{days} days of rain in {city}."


@tool
def createInvoice(customer: str, amount: float) -> str:  # noqa: N802 (names of this form are to be found, too)
    """Bill a customer.

    Args:
        customer: Who pays.
        amount: Price in euros.
    """
    return f"{customer} pays {amount:g}."


def _numbered(number: int):
    @tool(name=f"sensor_{number}")
    def sensor(unit: str = "K") -> str:
        """Read a sensor of the machine hall."""
        return f"{number} {unit}"

    return sensor


TOOLS = (get_weather_forecast, createInvoice, *(_numbered(number) for number in range(45)))
