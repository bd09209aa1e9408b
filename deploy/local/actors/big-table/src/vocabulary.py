"""The words and sentence patterns that the rows' texts are made of."""

ADJECTIVES = (
    "compact rugged lightweight wireless foldable silent durable waterproof handmade modular vintage ergonomic "
    "portable insulated adjustable recycled solar-powered stainless magnetic breathable premium everyday"
).split()

MATERIALS = (
    "oak aluminium merino carbon bamboo canvas leather ceramic titanium cork linen walnut copper glass wool denim"
).split()

NOUNS = (
    "backpack kettle lantern keyboard tent bicycle headphones notebook jacket thermos speaker blender desk chair "
    "camera drone helmet rucksack toolbox teapot monitor hammock stove microscope telescope armchair bookshelf"
).split()

PARTS = (
    "zip handle strap lid battery hinge cable seam cover switch frame base nozzle filter clasp lining display wheel"
).split()

VERBS = "arrived broke survived improved lasted leaked wobbled charged shipped folded performed rattled cooled".split()

PLACES = (
    "Praha;Brno;Zürich;København;São Paulo;Kraków;Łódź;Reykjavík;Malmö;Besançon;A Coruña;İzmir;東京;大阪;서울;Київ;"
    "Αθήνα;Lagos;Nairobi;Montréal;Portland;Wellington"
).split(";")

PEOPLE = (
    "Zoë Müller;José García;Aoife Ní Bhriain;Tomáš Dvořák;Anaïs Lefèvre;Søren Kjær;Ewa Wiśniewska;Nguyễn Văn An;"
    "山田 花子;김민준;Олена Коваль;Μαρία Παπαδοπούλου;Amara Okafor;Priya Raman;John Smith;Björk Jónsdóttir"
).split(";")

BRANDS = (
    "Nordlys Halcyon Terravox Ålesund Kestrel Ōmori Bramble&Co Fjällborg Quillon Zephyrine Ostrava Meridian".split()
)

TAGS = (
    "outdoor;kitchen;office;travel;sale;new;bestseller;café;gift 🎁;eco ♻️;clearance;limited edition;kids;winter;"
    'summer;2-in-1;"premium";refurbished;B-stock;handmade ✨'
).split(";")

COUNTRIES = "CZ DE FR PL DK SE CH ES JP KR UA GR US CA BR NG KE NZ IS NO".split()

CURRENCIES = "EUR USD CZK PLN CHF JPY GBP".split()

SENTENCE_PATTERNS = (
    "The {adjective} {noun} has a {material} {part} that {verb} after {number} days of daily use.",
    "We tested this {noun} in {place} for {number} weeks, and the {part} {verb} only once.",
    'One reviewer called it "the most {adjective} {noun} I own"; another complained about the {part}.',
    "Weighing {number} g, it fits next to a {adjective} {noun2} without touching the {material} {part}.",
    "Customers from {place} ordered {number} of them last month — mostly the {material} edition.",
    "{person} writes: the {part} is {adjective}, the {noun} itself is worth every cent.",
    "Care: wipe the {material} {part} with a dry cloth, never above {number} °C.",
    "Unlike the previous model, the {part} is now {adjective} and made of {material}.",
    "The box contains one {noun}, a spare {part}, {number} screws and a printed manual (12 languages).",
    "It {verb} well below freezing, which cannot be said of every {adjective} {noun2}.",
    "Prices in {place} start at {number},90 € including VAT; shipping takes 3–5 days.",
    "Designed by {person} in {place}, it replaces the {adjective} {noun2} of {number} years ago.",
    "Note:\tthe {part} is sold separately under order number {number}/{number2}.",
    "If the {part} ever fails, {person} will repair it free of charge for {number} months.",
)
