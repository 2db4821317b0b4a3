package weather

import (
	"sync"
	"time"
)

// Forecast содержит прогноз для одной высоты склона.
type Forecast struct {
	Altitude int
	Snow     float64
	Fetched  time.Time
}

// ForecastCache отдаёт прогноз погоды из памяти. Поставщик разрешает всего сто обращений в сутки.
type ForecastCache struct {
	mu    sync.Mutex
	fresh time.Duration
	items map[int]Forecast
	load  func(altitude int) (Forecast, error)
}

// Get возвращает прогноз; если поставщик лежит, показывает устаревший, лишь бы не пустое табло.
// Вторым значением сообщает, свежие ли это данные.
func (c *ForecastCache) Get(altitude int, now time.Time) (Forecast, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.items[altitude]
	if ok && now.Sub(old.Fetched) < c.fresh {
		return old, true, nil
	}
	next, err := c.load(altitude)
	if err != nil {
		if ok {
			return old, false, nil
		}
		return Forecast{}, false, err
	}
	c.items[altitude] = next
	return next, true, nil
}
