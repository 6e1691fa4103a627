package capacity

import (
	"slices"
	"strings"
	"time"
)

// Group is the time of some rows, and what it cost.
type Group struct {
	Name string
	Time [NumPlaces]Time
	// Cost by place, in the currency of the prices: time × the card's share of its
	// node's price at that time. Unpriced time costs nothing here.
	Cost     [NumPlaces]float64
	Unpriced Time
}

// Capacity is the time in all places.
func (g Group) Capacity() Time {
	var sum Time
	for _, v := range g.Time {
		sum += v
	}
	return sum
}

// Held is the time in the places of what pods hold.
func (g Group) Held() Time { return g.Time[Busy] + g.Time[Slack] + g.Time[Idle] + g.Time[Unmeasured] }

// TotalCost is the cost of all places.
func (g Group) TotalCost() float64 {
	sum := 0.0
	for _, v := range g.Cost {
		sum += v
	}
	return sum
}

// Pool groups by node pool.
func Pool(k Key) string { return k.Pool }

// Model groups by product.
func Model(k Key) string { return k.Model }

// Tenant groups by the holder's tenant.
func Tenant(k Key) string { return k.Tenant }

// Namespace groups by the holder's namespace.
func Namespace(k Key) string { return k.Namespace }

// By adds rows up by a name of theirs (Pool, Model, Tenant, Namespace), sorted by
// it. The group without a name is of what nobody holds, or who has none.
func (t Totals) By(name func(Key) string) Groups {
	index := map[string]int{}
	var out Groups
	for _, r := range t.Rows {
		n := name(r.Key)
		i, ok := index[n]
		if !ok {
			i = len(out)
			index[n] = i
			out = append(out, Group{Name: n})
		}
		out[i].add(r)
	}
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// All adds all rows up.
func (t Totals) All() Group {
	var g Group
	for _, r := range t.Rows {
		g.add(r)
	}
	return g
}

func (g *Group) add(r Row) {
	for p, v := range r.Time {
		g.Time[p] += v
		g.Cost[p] += v.Hours() * r.PricePerHour
		if r.PricePerHour == 0 {
			g.Unpriced += v
		}
	}
}

// String returns the table of places: GPU-hours, percent of the capacity, cost.
func (t Totals) String() string {
	g := t.All()
	table := newTable(1, "place", "GPU-hours", "%", "cost")
	for p, v := range g.Time {
		table.add(Place(p).String(), number(v.Hours()), percent(v, t.Capacity), number(g.Cost[p]))
	}
	table.add("capacity", number(t.Capacity.Hours()), percent(t.Capacity, t.Capacity), number(g.TotalCost()))
	text := table.String()
	if g.Unpriced > 0 {
		text += "without a price: " + number(g.Unpriced.Hours()) + " GPU-hours\n"
	}
	if !t.From.IsZero() {
		text += t.From.Format(time.RFC3339) + " … " + t.To.Format(time.RFC3339) + "\n"
	}
	return text
}

func percent(v, of Time) string {
	if of == 0 {
		return "-"
	}
	return number(100 * float64(v) / float64(of))
}

// Groups is the answer of Totals.By.
type Groups []Group

// String returns the table, in GPU-hours.
func (gs Groups) String() string {
	head := []string{"", "capacity", "cost"}
	for p := range NumPlaces {
		head = append(head, p.String())
	}
	t := newTable(1, head...)
	for _, g := range gs {
		words := []string{g.Name, number(g.Capacity().Hours()), number(g.TotalCost())}
		for _, v := range g.Time {
			words = append(words, number(v.Hours()))
		}
		t.add(words...)
	}
	return t.String()
}
