"""Surroundings without settings."""

from tests.support.surroundings import no_settings as no_settings
