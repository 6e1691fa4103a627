package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// profileText names a profile as the model does, or in bare slices ("c3m4a0")
// where no name parses back.
func profileText(model string, p mig.Profile) string {
	if t, ok := mig.ForModel(model); ok && t.Has(p) {
		return t.Name(p)
	}
	return fmt.Sprintf("c%dm%da%d", p.Compute, p.Memory, p.Attrs)
}

func parseProfile(model, s string) (mig.Profile, error) {
	var p mig.Profile
	if n, err := fmt.Sscanf(s, "c%dm%da%d", &p.Compute, &p.Memory, &p.Attrs); err == nil && n == 3 {
		return p, nil
	}
	t, ok := mig.ForModel(model)
	if !ok {
		return p, fmt.Errorf("profile %q: the model %q has no table", s, model)
	}
	return t.Lookup(s)
}

func placementText(model string, p mig.Placement) string {
	return quote(profileText(model, p.Profile) + "@" + strconv.Itoa(p.Start))
}

// placements reads places one after another: a start alone is one more of the
// profile before it, as plans print it ("1g.10gb@0,1,2").
type placements struct {
	model, profile string
}

func (l *placements) read(s string) (mig.Placement, error) {
	if _, err := strconv.ParseUint(s, 10, 31); err == nil && l.profile != "" {
		s = l.profile + "@" + s
	}
	p, err := parsePlacement(l.model, s)
	if err == nil {
		l.profile = s[:strings.LastIndexByte(s, '@')]
	}
	return p, err
}

func parsePlacement(model, s string) (mig.Placement, error) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return mig.Placement{}, fmt.Errorf("%q: want profile@start", s)
	}
	start, err := strconv.Atoi(s[i+1:])
	if err != nil {
		return mig.Placement{}, fmt.Errorf("%q: the start is no number", s)
	}
	p, err := parseProfile(model, s[:i])
	return mig.Placement{Profile: p, Start: start}, err
}

// instanceFields are behind a place: "3g.40gb@0:allocated-to=ns/pod", "1g.10gb@4:idle=5m:busy=0.5~3s".
func instanceFields(x *fields, in *plan.Instance) {
	x.string("allocated-to", &in.AllocatedTo)
	x.time("idle", &in.IdleSince, ago)
	x.time("unused", &in.UnusedSince, ago)
	x.string("uuid", &in.UUID)
	x.busy("busy", &in.Busy)
	x.either("", "unplaced", &in.Placed, true)
}
