"""Events: zero crossings of functions of time and state, and actions there.

In: functions of users. Out: what `polhode.simulation.events` detects. Open first: `event.py`.
"""

from polhode.events.contact_events import contact as contact
from polhode.events.event import Event as Event
from polhode.events.impacts import Impact as Impact
from polhode.events.impacts import impact as impact
from polhode.events.impacts import stop as stop
from polhode.events.table import Events as Events
