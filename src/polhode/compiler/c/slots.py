"""Numbers in slots of memory of eight bytes, each of them the union `slot`."""


def slot_value(slot: str, kind: str) -> str:
    """The number of a C type in a slot of memory."""
    if kind == "double":
        return f"{slot}.number"
    whole = f"{slot}.integer"
    return f"{whole} & 1" if kind == "bool" else whole if kind == "int64_t" else f"({kind}){whole}"


def slot_member(slot: str, kind: str) -> str:
    """The place in a slot of memory to which a number of a C type is assigned."""
    return f"{slot}.{'number' if kind == 'double' else 'integer'}"
