package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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

// instanceText is "3g.40gb@0:allocated-to=ns/pod", "1g.10gb@4:idle=5m:busy=0.5~3s".
func instanceText(model string, in plan.Instance, now time.Time) string {
	var b strings.Builder
	b.WriteString(placementText(model, in.Placement))
	if in.AllocatedTo != "" {
		b.WriteString(":allocated-to=" + quote(in.AllocatedTo))
	}
	if !in.IdleSince.IsZero() {
		b.WriteString(":idle=" + quote(timeText(in.IdleSince, now, -1)))
	}
	if !in.UnusedSince.IsZero() {
		b.WriteString(":unused=" + quote(timeText(in.UnusedSince, now, -1)))
	}
	if in.UUID != "" {
		b.WriteString(":uuid=" + quote(in.UUID))
	}
	if _, known := in.Busy.Get(); known {
		b.WriteString(":busy=" + quote(busyText(in.Busy)))
	}
	if !in.Placed {
		b.WriteString(":unplaced")
	}
	return b.String()
}

func parseInstance(l *placements, it item, now time.Time) (plan.Instance, error) {
	p, err := l.read(it[0].name)
	in := plan.Instance{Placement: p, Placed: true}
	for _, s := range it[1:] {
		if err != nil {
			break
		}
		switch s.name {
		case "allocated-to":
			in.AllocatedTo = s.value
		case "idle":
			in.IdleSince, err = parseTime(s.value, now, -1)
		case "unused":
			in.UnusedSince, err = parseTime(s.value, now, -1)
		case "uuid":
			in.UUID = s.value
		case "busy":
			in.Busy, err = parseBusy(s.value)
		case "unplaced":
			in.Placed = false
		default:
			err = fmt.Errorf("%q: instances know allocated-to, idle, unused, uuid, busy and unplaced", s.name)
		}
	}
	return in, err
}
