"""Distances between shapes: gaps, points and normals of contacts.

In: two shapes on bodies with poses. Out: `ContactPoints`, arrays over a number of slots that depends on the two kinds
of shapes alone. Open first: `pairs.py`, with the function of each pair.
"""

from polhode.contact.distances.contact_points import APART as APART
from polhode.contact.distances.contact_points import ContactPoints as ContactPoints
from polhode.contact.distances.contact_points import match as match
from polhode.contact.distances.pairs import check_pair as check_pair
from polhode.contact.distances.pairs import contact_points as contact_points
from polhode.contact.distances.pairs import has_search as has_search
from polhode.contact.distances.pairs import slots as slots
