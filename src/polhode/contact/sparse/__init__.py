"""Contacts between many free bodies: candidates in lists, and problems without matrices.

In: shapes by kinds with a table of rules. Out: contacts of a step, and their impulses at a cost that grows with the
number of contacts. Open first: `listed_contacts.py` (which contacts there are), then `sparse_solver.py`.
"""
