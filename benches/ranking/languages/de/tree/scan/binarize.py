"""Umwandlung grauer Scans in reines Schwarzweiß."""


def local_threshold(bild, x, y, fenster=15, abzug=10):
    """Berechnet die Schwelle eines Bildpunkts aus der Helligkeit seiner Nachbarschaft.

    Vergilbtes Papier ist am Rand dunkler als in der Mitte, eine einzige
    Schwelle fürs ganze Blatt würde dort alles schwärzen.
    """
    summe = anzahl = 0
    for zeile in bild[max(0, y - fenster):y + fenster + 1]:
        ausschnitt = zeile[max(0, x - fenster):x + fenster + 1]
        summe += sum(ausschnitt)
        anzahl += len(ausschnitt)
    return summe / anzahl - abzug


def remove_specks(pixel, mindestgroesse=4):
    """Entfernt Staubkörner und Stockflecken, die kleiner als ein Punktierungspunkt sind.

    Zusammenhängende Flecken werden als Ganzes betrachtet, sonst bekämen die
    Hilfslinien Löcher.
    """
    offen = set(pixel)
    behalten = set()
    while offen:
        stapel = [offen.pop()]
        fleck = set(stapel)
        while stapel:
            x, y = stapel.pop()
            for n in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                if n in offen:
                    offen.remove(n)
                    fleck.add(n)
                    stapel.append(n)
        if len(fleck) >= mindestgroesse:
            behalten |= fleck
    return behalten
