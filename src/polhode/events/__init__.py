"""Events: instants at which a function of time and state passes through zero, and what happens there."""

from polhode.events.event import Event as Event
