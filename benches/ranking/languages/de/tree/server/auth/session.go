package auth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"
)

// Session hält fest, welcher Musiker an welchem Pult angemeldet ist. Sie verfällt
// spätestens am Ende der Probe, damit geteilte Tablets nicht offen liegen bleiben.
type Session struct {
	Token   string
	UserID  int64
	Pult    string
	Expires time.Time
}

// NewSession erzeugt ein zufälliges Token und legt die Gültigkeitsdauer fest.
// Auf Leihtablets ist sie bewusst kürzer als auf privaten Geräten.
func NewSession(userID int64, pult string, leihgeraet bool) (*Session, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return nil, err
	}
	ttl := 12 * time.Hour
	if leihgeraet {
		ttl = 3 * time.Hour
	}
	return &Session{hex.EncodeToString(raw), userID, pult, time.Now().Add(ttl)}, nil
}

// Touch verlängert eine laufende Sitzung um eine halbe Stunde, sobald jemand blättert.
// Wer schon abgemeldet wurde, bekommt einen Fehler und muss sich neu ausweisen.
func (s *Session) Touch(now time.Time) error {
	if now.After(s.Expires) {
		return errors.New("session abgelaufen")
	}
	// nie verkürzen: lange Sitzungen behalten ihr ursprüngliches Ende
	if next := now.Add(30 * time.Minute); next.After(s.Expires) {
		s.Expires = next
	}
	return nil
}
