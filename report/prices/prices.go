package prices

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/gpu"
)

// List is a price list.
type List struct {
	Currency string // "USD"
	Source   string // where the figures come from
	Date     string // of which day they are, 2006-01-02
	Prices   []Price
}

// Price of one card of a model for an hour.
type Price struct {
	Model   string // gpu.ProductName
	Spot    bool
	PerHour float64
}

// Card returns the price of a card for an hour, and whether the list has it.
func (l List) Card(model string, spot bool) (float64, bool) {
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
	var root, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return List{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return List{}, fmt.Errorf("%s: has a second document: put all prices into one", file)
	}
	r := reader{file: file}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		return List{}, fmt.Errorf("%s: is empty: want currency, source, date and prices", file)
	}
	l := r.list(root.Content[0])
	if len(r.errs) > 0 {
		return List{}, errors.Join(r.errs...)
	}
	return l, nil
}

// reader collects what is wrong.
type reader struct {
	file string
	errs []error
}

func (r *reader) add(n *yaml.Node, field, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s: %s", r.file, n.Line, field, fmt.Sprintf(format, args...)))
}

func (r *reader) list(n *yaml.Node) List {
	var l List
	fields := r.fields(n, "", "currency", "source", "date", "prices")
	l.Currency = r.text(fields["currency"], n, "currency")
	l.Source = r.text(fields["source"], n, "source")
	l.Date = r.text(fields["date"], n, "date")
	if _, err := time.Parse(time.DateOnly, l.Date); err != nil && fields["date"] != nil {
		r.add(fields["date"], "date", "%q: want a day, 2006-01-02", l.Date)
	}
	list := fields["prices"]
	switch {
	case list == nil:
		r.add(n, "prices", "is required")
		return l
	case list.Kind != yaml.SequenceNode || len(list.Content) == 0:
		r.add(list, "prices", "want a list of model, perHour and spot")
		return l
	}
	met := map[Price]int{}
	for i, entry := range list.Content {
		at := fmt.Sprintf("prices[%d]", i)
		p := r.price(entry, at)
		key := Price{Model: p.Model, Spot: p.Spot}
		if line, twice := met[key]; twice && p.Model != "" {
			r.add(entry, at+".model", "%s has a price in line %d", p.Model, line)
		}
		met[key] = entry.Line
		l.Prices = append(l.Prices, p)
	}
	return l
}

func (r *reader) price(n *yaml.Node, at string) Price {
	var p Price
	fields := r.fields(n, at+".", "model", "perHour", "spot")
	p.Model = gpu.ProductName(r.text(fields["model"], n, at+".model"))
	if text := r.text(fields["perHour"], n, at+".perHour"); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			r.add(fields["perHour"], at+".perHour", "%q: want a number more than 0", text)
		}
		p.PerHour = v
	}
	if spot := fields["spot"]; spot != nil {
		if spot.Tag != "!!bool" {
			r.add(spot, at+".spot", "%q: want true or false", spot.Value)
		}
		p.Spot = spot.Value == "true"
	}
	return p
}

// fields returns a mapping's values by name; what is unknown or there twice is a
// problem. Aliases are not followed: nobody needs them here.
func (r *reader) fields(n *yaml.Node, prefix string, names ...string) map[string]*yaml.Node {
	all := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		r.add(n, prefix+names[0], "want fields: %v", names)
		return all
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		known := false
		for _, name := range names {
			known = known || key.Value == name
		}
		switch {
		case !known:
			r.add(key, prefix+key.Value, "is no field; there are %v", names)
		case all[key.Value] != nil:
			r.add(key, prefix+key.Value, "is there twice")
		default:
			all[key.Value] = n.Content[i+1]
		}
	}
	return all
}

func (r *reader) text(n, parent *yaml.Node, field string) string {
	switch {
	case n == nil:
		r.add(parent, field, "is required")
		return ""
	case n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null":
		r.add(n, field, "want a value")
		return ""
	}
	return n.Value
}
