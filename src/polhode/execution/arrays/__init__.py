"""Programs on long arrays as machine code: loops over elements, in which operations that follow each other are one."""
