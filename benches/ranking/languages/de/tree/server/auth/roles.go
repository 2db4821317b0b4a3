package auth

// Role beschreibt die Stellung eines Mitglieds im Orchester. Die Reihenfolge ist
// bedeutsam: Höhere Werte schließen die Befugnisse der niedrigeren ein.
type Role int

const (
	Gast Role = iota
	Musiker
	Stimmfuehrer
	Notenwart
	Verwalter
)

// CanEditBowings sagt, ob jemand Bogenstriche für die ganze Gruppe eintragen darf.
// Das ist dem Stimmführer der eigenen Stimme vorbehalten, der Notenwart darf es überall.
func CanEditBowings(r Role, eigeneStimme, zielStimme string) bool {
	if r >= Notenwart {
		return true
	}
	return r == Stimmfuehrer && eigeneStimme == zielStimme
}

// GrantTemporary befördert eine Aushilfe für die Dauer eines einzigen Projekts. Die
// zurückgegebene Funktion nimmt die Beförderung wieder zurück.
func GrantTemporary(rollen map[int64]Role, user int64, neu Role) (revoke func()) {
	alt, vorhanden := rollen[user]
	rollen[user] = neu
	return func() {
		// unbekannte Nutzer wieder ganz entfernen, statt sie als Gast stehen zu lassen
		if !vorhanden {
			delete(rollen, user)
			return
		}
		rollen[user] = alt
	}
}
