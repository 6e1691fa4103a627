package prices

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/gpu"
)

// List is a price list.
type List struct {
	Currency string  `yaml:"currency"` // "USD"
	Source   string  `yaml:"source"`   // source of the figures
	Date     string  `yaml:"date"`     // their date, 2006-01-02
	Prices   []Price `yaml:"prices"`
}

// Price of one GPU of a model for an hour.
type Price struct {
	Model   string  `yaml:"model"` // gpu.ProductName
	Spot    bool    `yaml:"spot"`
	PerHour float64 `yaml:"perHour"`
}

// GPU returns the price of a GPU for an hour, and whether the list has it.
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

// maxBytes bounds a price list: a catalogue of every cloud is far smaller.
const maxBytes = 1 << 20

// Parse reads a list. The error joins all problems, each with file, line and field.
func Parse(file string, raw []byte) (List, error) {
	if len(raw) > maxBytes {
		return List{}, fmt.Errorf("%s: larger than %d bytes", file, maxBytes)
	}
	var l List
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, errors.New(file+fmt.Sprintf(format, args...))) }
	var mistyped *yaml.TypeError
	switch err := d.Decode(&l); {
	case errors.Is(err, io.EOF):
		return List{}, fmt.Errorf("%s: is empty: want currency, source, date and prices", file)
	case errors.As(err, &mistyped):
		for _, text := range mistyped.Errors { // other fields are read nevertheless
			add(": %s", text)
		}
	case err != nil:
		return List{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return List{}, fmt.Errorf("%s: has a second document: put all prices into one", file)
	}
	if l.Currency == "" {
		add(": currency: is required")
	}
	if l.Source == "" {
		add(": source: is required")
	}
	if _, err := time.Parse(time.DateOnly, l.Date); err != nil {
		add(": date: %q: want a day, 2006-01-02", l.Date)
	}
	if len(l.Prices) == 0 {
		add(": prices: want a list of model, perHour and spot")
	}
	if len(errs) > 0 {
		return List{}, errors.Join(errs...)
	}
	// The line of each price.
	var at struct{ Prices []yaml.Node }
	if err := yaml.Unmarshal(raw, &at); err != nil {
		return List{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(at.Prices) != len(l.Prices) { // the decoder skips null entries
		return List{}, fmt.Errorf("%s: prices: an entry is empty", file)
	}
	met := map[Price]int{}
	for i := range l.Prices {
		p, line := &l.Prices[i], at.Prices[i].Line
		if p.Model == "" {
			add(":%d: prices[%d].model: is required", line, i)
		}
		if !(p.PerHour > 0) || math.IsInf(p.PerHour, 0) {
			add(":%d: prices[%d].perHour: %v: want a number more than 0", line, i, p.PerHour)
		}
		p.Model = gpu.ProductName(p.Model)
		key := Price{Model: p.Model, Spot: p.Spot}
		if other, twice := met[key]; twice {
			add(":%d: prices[%d].model: %s has a price in line %d", line, i, p.Model, other)
		}
		met[key] = line
	}
	if len(errs) > 0 {
		return List{}, errors.Join(errs...)
	}
	return l, nil
}
