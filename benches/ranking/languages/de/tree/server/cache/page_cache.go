package cache

import "fmt"
import "sync"

// PageCache bewahrt fertig gerenderte Notenseiten im Arbeitsspeicher auf. Während einer
// Probe rufen achtzig Pulte fast gleichzeitig dieselbe Seite ab.
type PageCache struct {
	sync.Mutex
	seiten  map[string][]byte
	laufend map[string]*sync.WaitGroup
}

// PageKey bildet den Schlüssel aus Werk, Ausgabe und Zoomstufe. Die Revision gehört
// hinein, damit Korrekturen des Verlags nie veraltete Bilder treffen.
func PageKey(werk, seite, zoom, revision int) string {
	return fmt.Sprintf("%d/%d@%d#%d", werk, seite, zoom, revision)
}

// GetOrRender liefert die Seite aus dem Zwischenspeicher oder stößt das Rendern an.
// Kommen mehrere Anfragen zugleich, rechnet nur die erste, die anderen warten auf sie.
func (c *PageCache) GetOrRender(key string, render func() []byte) []byte {
	c.Lock()
	if b, ok := c.seiten[key]; ok {
		c.Unlock()
		return b
	}
	if wg, ok := c.laufend[key]; ok {
		c.Unlock()
		wg.Wait()
		return c.GetOrRender(key, render)
	}
	wg := new(sync.WaitGroup)
	wg.Add(1)
	c.laufend[key] = wg
	c.Unlock()
	defer wg.Done()
	b := render()
	c.Lock()
	c.seiten[key] = b
	delete(c.laufend, key)
	c.Unlock()
	return b
}
