"""Names of recorded traces: sets of them, and what stands for each where its file is not there."""

SETS = {
    "hspa": ["campus-walk", "city-drive", "highway-drive", "highway-3g", "beachfront-walk"],
    "merged": ["mdi/channel00", "mdi/channel03", "mdi/channel05", "mdi/channel08", "mdi/channel11"],
    "lte": ["verizon-lte-short", "att-lte-driving"],
    "umts": ["tmobile-umts-driving"],
    "alcc": [
        "verizon-lte-short",
        "rapid-change",
        "highway-3g",
        "city-drive",
        "campus-walk",
        "highway-drive",
        "beachfront-walk",
    ],
    "up": ["att-lte-driving.up", "verizon-lte-short.up", "tmobile-umts-driving.up"],
}
"""Sets of traces by the names that claims use."""

STAND_INS = {
    "campus-walk": ["hspa-walking"],
    "city-drive": ["hspa-city", "hspa-walking"],
    "highway-drive": ["hspa-highway", "hspa-walking"],
    "highway-3g": ["hspa-fast", "hspa-walking"],
    "beachfront-walk": ["hspa-beach", "hspa-walking"],
    "mdi/": ["hspa-merged", "hspa-walking"],
    "verizon-lte-short": ["lte-driving"],
    "att-lte-driving": ["lte-driving"],
    "tmobile-umts-driving": ["umts-driving"],
    "rapid-change": ["random:3.5mbit..16.5mbit/5s"],
    "att-lte-driving.up": ["lte-driving"],
    "verizon-lte-short.up": ["lte-driving"],
    "tmobile-umts-driving.up": ["umts-driving"],
}
"""What stands for each recorded trace: the first that cellpace has."""
