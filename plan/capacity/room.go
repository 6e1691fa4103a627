package capacity

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Room is how many more instances of one profile a pool's cards of one model
// could give, with everything that is held left in place. Each row stands for
// itself: what one profile takes, another cannot have.
type Room struct {
	Pool, Model string
	Profile     mig.Profile
	Name        string // of the profile on this product
	// Now is instances that exist and are free.
	Now int
	// Allowed is what there would be after cutting every card for this profile as
	// the pool's rules let the planner do it: not at all, only cards that nobody
	// holds any of, or around what is held, and only allowed profiles.
	Allowed int
	// Possible is the same by the product's table alone: what any actuator could
	// get that leaves instances in use in place.
	Possible int
}

// Room looks at the MIG cards in service, card by card, and returns a row for
// every profile without attributes of every model, by pool, model and profile.
// Where it is not known where held instances lie, nothing more than Now is
// possible. Idle times and cooldowns are the planner's business, not looked at.
func (sv *Survey) Room() RoomTable {
	type key struct{ pool, model string }
	index := map[key]RoomTable{}
	for i := range sv.Cards {
		c := &sv.Cards[i]
		t, ok := mig.ForModel(c.Model)
		if !ok || c.State != Free || !c.mig {
			continue
		}
		at := key{c.Pool, c.Model}
		rows, ok := index[at]
		if !ok {
			rows = newRooms(t, c)
			index[at] = rows
		}
		for k := range rows {
			sv.addRoom(&rows[k], t, c)
		}
	}
	var out RoomTable
	for _, rows := range index {
		out = append(out, rows...)
	}
	slices.SortFunc(out, func(a, b Room) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Model, b.Model), a.Profile.Compare(b.Profile))
	})
	return out
}

func newRooms(t *mig.Table, c *Card) RoomTable {
	var rows RoomTable
	for _, p := range t.Profiles() {
		if p.Attrs == 0 {
			rows = append(rows, Room{Pool: c.Pool, Model: c.Model, Profile: p, Name: t.Name(p)})
		}
	}
	return rows
}

func (sv *Survey) addRoom(r *Room, t *mig.Table, c *Card) {
	now := 0
	for _, p := range c.Parts {
		if p.Profile == r.Profile && p.Holder == "" {
			now++
		}
	}
	possible := now
	if c.placed || len(c.held) == 0 {
		possible = max(now, sv.fits.room(t, c.held, r.Profile))
	}
	r.Now += now
	r.Possible += possible
	if sv.mayCut(c, r.Profile) {
		r.Allowed += possible
	} else {
		r.Allowed += now
	}
}

func (sv *Survey) mayCut(c *Card, p mig.Profile) bool {
	pool := sv.pools[c.Pool]
	if pool == nil || !pool.MIG.Repartition || pool.Freeze {
		return false
	}
	return (pool.MIG.KeepsBusy || len(c.held) == 0) && (len(pool.MIG.Allowed) == 0 || slices.Contains(pool.MIG.Allowed, p))
}

// RoomTable is the answer of Survey.Room.
type RoomTable []Room

// String returns the table.
func (rows RoomTable) String() string {
	t := newTable(3, "pool", "model", "profile", "now", "allowed", "possible")
	for _, r := range rows {
		t.add(r.Pool, r.Model, r.Name, strconv.Itoa(r.Now), strconv.Itoa(r.Allowed), strconv.Itoa(r.Possible))
	}
	return t.String()
}
