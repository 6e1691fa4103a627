package prices

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// List is a price list.
type List struct {
	Currency string  `json:"currency"` // "USD"
	Source   string  `json:"source"`   // where the prices come from
	Date     string  `json:"date"`     // date of the prices, 2006-01-02
	Prices   []Price `json:"prices"`
}

// Price is the price of one GPU of a model for an hour.
type Price struct {
	Model   string  `json:"model"` // gpu.ProductName
	Spot    bool    `json:"spot"`
	PerHour float64 `json:"perHour"`
}

// GPU returns the price of a GPU for an hour, and whether the list has one.
func (l List) GPU(model string, spot bool) (float64, bool) {
	for _, p := range l.Prices {
		if p.Model == gpu.ProductName(model) && p.Spot == spot {
			return p.PerHour, true
		}
	}
	return 0, false
}

// Load reads a file.
func Load(file string) (List, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return List{}, fmt.Errorf("reading prices: %w", err)
	}
	return Parse(file, raw)
}

// Parse reads a price list. The error joins all problems, each with file, line and field.
func Parse(file string, raw []byte) (List, error) {
	var l List
	if err := strict.Read(file, raw, &l, func() error { return l.check() }); err != nil {
		return List{}, err
	}
	for i := range l.Prices {
		l.Prices[i].Model = gpu.ProductName(l.Prices[i].Model)
	}
	return l, nil
}

// check returns all problems, each with its field's path.
func (l List) check() error {
	var errs []error
	when := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	when(l.Currency == "", "currency: is required")
	when(l.Source == "", "source: is required")
	_, err := time.Parse(time.DateOnly, l.Date)
	when(err != nil, "date: %q: want a day, 2006-01-02", l.Date)
	when(len(l.Prices) == 0, "prices: want a list of model, perHour and spot")
	met := map[Price]int{}
	for i, p := range l.Prices {
		when(p.Model == "", "prices[%d].model: is required", i)
		when(p.PerHour <= 0, "prices[%d].perHour: %v: want a number more than 0", i, p.PerHour)
		key := Price{Model: gpu.ProductName(p.Model), Spot: p.Spot}
		other, twice := met[key]
		when(twice, "prices[%d].model: %s has a price already, prices[%d]", i, key.Model, other)
		met[key] = i
	}
	return errors.Join(errs...)
}
