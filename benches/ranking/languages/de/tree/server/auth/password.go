package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"unicode/utf8"
)

const runden = 120000

// DeriveKey streckt das Kennwort mit vielen Hash-Runden und dem Salz des Kontos.
// Das Durchprobieren gestohlener Datensätze wird dadurch unwirtschaftlich.
func DeriveKey(kennwort string, salz []byte) [32]byte {
	sum := sha256.Sum256(append([]byte(kennwort), salz...))
	for i := 1; i < runden; i++ {
		sum = sha256.Sum256(append(sum[:], salz...))
	}
	return sum
}

// MatchesKey vergleicht zwei abgeleitete Schlüssel in konstanter Zeit, sodass die
// Antwortdauer nichts darüber verrät, wie viele Bytes übereinstimmen.
func MatchesKey(a, b [32]byte) bool {
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// CheckStrength lehnt zu schwache Kennwörter schon bei der Registrierung ab. Der Name
// des Orchesters darf nicht vorkommen, weil der erfahrungsgemäß als Erstes geraten wird.
func CheckStrength(kennwort, orchester string) string {
	if utf8.RuneCountInString(kennwort) < 10 {
		return "zu kurz"
	}
	if strings.Contains(strings.ToLower(kennwort), strings.ToLower(orchester)) {
		return "enthält den Orchesternamen"
	}
	return ""
}
