"""Methods for contacts with unilateral laws, impacts and Coulomb friction, in steps that impacts don't end.

In: a mechanical system with a `contact_set`. Out: carries whose multipliers are those of the joints,
then forces of the contacts (`contact_record.py`). Open first: `moreau.py`.
"""
