"""Twenty templates of number agreement: a head, a nearer noun of the other number, an auxiliary, a predicate.

Every template makes four contexts: singular or plural head, and the auxiliary that agrees with it or the other one.
The attractor always has the number that the head has not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """``frame`` with places for head, attractor and auxiliary; the words, singular first."""

    frame: str
    head: tuple[str, str]
    attractor: tuple[str, str]
    auxiliary: tuple[str, str]


_IS, _WAS, _HAS, _DOES = ("is", "are"), ("was", "were"), ("has", "have"), ("does", "do")

TEMPLATES: tuple[Template, ...] = (
    Template("The {head} beside the {attractor} {auxiliary} open", ("door", "doors"), ("window", "windows"), _IS),
    Template("The {head} behind the {attractor} {auxiliary} quiet", ("house", "houses"), ("tree", "trees"), _WAS),
    Template("The {head} of the {attractor} {auxiliary} missing", ("key", "keys"), ("cabinet", "cabinets"), _IS),
    Template("The {head} near the {attractor} {auxiliary} broken", ("chair", "chairs"), ("table", "tables"), _WAS),
    Template(
        "The {head} with the {attractor} {auxiliary} arrived", ("teacher", "teachers"), ("student", "students"), _HAS
    ),
    Template("The {head} above the {attractor} {auxiliary} dark", ("cloud", "clouds"), ("mountain", "mountains"), _IS),
    Template("The {head} behind the {attractor} {auxiliary} waiting", ("driver", "drivers"), ("car", "cars"), _WAS),
    Template(
        "The {head} from the {attractor} {auxiliary} vanished", ("letter", "letters"), ("friend", "friends"), _HAS
    ),
    Template("The {head} under the {attractor} {auxiliary} sleeping", ("dog", "dogs"), ("bed", "beds"), _IS),
    Template("The {head} on the {attractor} {auxiliary} expensive", ("picture", "pictures"), ("wall", "walls"), _WAS),
    Template("The {head} across the {attractor} {auxiliary} closed", ("shop", "shops"), ("street", "streets"), _IS),
    Template("The {head} for the {attractor} {auxiliary} changed", ("plan", "plans"), ("project", "projects"), _HAS),
    Template("The {head} of the {attractor} {auxiliary} famous", ("author", "authors"), ("book", "books"), _WAS),
    Template("The {head} next to the {attractor} {auxiliary} green", ("bottle", "bottles"), ("glass", "glasses"), _IS),
    Template("The {head} against the {attractor} {auxiliary} failed", ("argument", "arguments"), ("law", "laws"), _HAS),
    Template("The {head} inside the {attractor} {auxiliary} empty", ("box", "boxes"), ("room", "rooms"), _WAS),
    Template("The {head} about the {attractor} {auxiliary} boring", ("story", "stories"), ("king", "kings"), _IS),
    Template("The {head} between the {attractor} {auxiliary} long", ("road", "roads"), ("city", "cities"), _WAS),
    Template("The {head} by the {attractor} {auxiliary} matter", ("song", "songs"), ("singer", "singers"), _DOES),
    Template("The {head} over the {attractor} {auxiliary} collapsed", ("bridge", "bridges"), ("river", "rivers"), _HAS),
)
