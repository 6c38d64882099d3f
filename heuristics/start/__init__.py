"""Start schedules: good answers with no search, by rules from one table."""

from .choose import Proposal, proposals, quick_starts, starts, templates
from .start_rule import EXACT, StartFacts, StartRule, Template

__all__ = ["EXACT", "StartFacts", "Proposal", "StartRule", "Template", "proposals", "quick_starts", "starts", "templates"]
