"""What installed packages add: recipes, model prefixes, axis rules, derivative rules and measures, by entry points."""

from sgfi.plugins.registry import Plugin, PluginWarning, Registry

__all__ = ["Plugin", "PluginWarning", "Registry"]
