// Package collecttest renders readings as text, for the scenarios of their sources.
package collecttest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Show is a scenario's command read. It shows each of times=N readings that differs from the
// one before, with identity and health if the command has these options. An error ends it.
func Show(t *testing.T, d *datadriven.TestData, read func() (*collect.Reading, error)) string {
	var shown []string
	times := 1
	d.MaybeScanArgs(t, "times", &times)
	for range times {
		r, err := read()
		if err != nil {
			return err.Error()
		}
		text := Text(r, Options{Identity: d.HasArg("identity"), Health: d.HasArg("health")})
		if len(shown) == 0 || shown[len(shown)-1] != text {
			shown = append(shown, text)
		}
	}
	return strings.Join(shown, "then\n")
}

// Options say what Text has beside values and events.
type Options struct{ Identity, Health bool }

// The UUIDs that internal/fakenvml gives are shortened: GPU-1, MIG-0/9.
var (
	ofGPU = regexp.MustCompile(`GPU-0*(\d+)-0000-4000-8000-0{12}`)
	ofMIG = regexp.MustCompile(`MIG-0*(\d+)-0000-5000-8000-0*(\d+)`)
)

// Text returns a line for each entity and device, and one for each reason for
// which values were left out.
func Text(r *collect.Reading, o Options) string {
	var out strings.Builder
	reasons := map[int]string{}
	for _, h := range collect.Health(r) {
		if reasons[h.GPU] = h.Reason; !h.Known {
			reasons[h.GPU] = "health unknown"
		}
	}
	for i := range r.Entities {
		e := &r.Entities[i]
		words := []string{fmt.Sprintf("%d %s:", e.GPU, e.UUID)}
		if e.Kind == collect.Instance {
			words = []string{fmt.Sprintf("%d.%d %s %s:", e.GPU, e.InstanceID, e.Profile, strings.Join(e.MIGDevices, " "))}
		}
		if e.Kind == collect.GPU && e.MIG {
			words = append(words, "MIG")
		}
		if o.Identity {
			words = append(words, identity(e))
		}
		if o.Health && e.Kind == collect.GPU {
			words = append(words, reasons[e.GPU])
		}
		words = append(append(words, events(e)...), values(e.Values)...)
		fmt.Fprintln(&out, strings.Join(words, " "))
	}
	for _, d := range r.Devices {
		kind := []string{"switch", "link of switch", "link of GPU", "CPU", "core of CPU"}[d.Kind-collect.Switch]
		if d.Kind != collect.Switch && d.Kind != collect.CPU {
			kind += fmt.Sprintf(" %d", d.Parent)
		}
		fmt.Fprintf(&out, "%s %d: %s\n", kind, d.DCGMID, strings.Join(values(d.Values), " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Dropped)) {
		if n := r.Dropped[reason]; n > 0 {
			fmt.Fprintf(&out, "dropped: %d %s\n", n, reason)
		}
	}
	return ofMIG.ReplaceAllString(ofGPU.ReplaceAllString(out.String(), "GPU-$1"), "MIG-$1/$2")
}

func identity(e *collect.Entity) string {
	text := fmt.Sprintf("(%s at %s, index %d, minor %d, driver %s, %d slices", e.Model, e.PCIBusID, e.Index, e.Minor, e.DriverVersion, e.GPUMaxCompute)
	if e.Kind == collect.Instance {
		text += fmt.Sprintf("; %s of %s, number %d, %d slices, memory from %d, %d long", e.InstanceUUID, e.UUID, e.DCGMID, e.ComputeSlices, e.Start, e.Size)
	}
	return text + ")"
}

func events(e *collect.Entity) (words []string) {
	if e.Lost {
		words = append(words, "lost")
	}
	if e.Events != nil {
		if !e.Events.Returned.IsZero() {
			words = append(words, "returned")
		}
		for _, x := range e.Events.XIDs {
			on := ""
			if x.Instance != "" {
				on = "@" + x.Instance
			}
			words = append(words, fmt.Sprintf("XID %d%s×%d", x.Code, on, x.Total))
		}
	}
	if e.Health != nil {
		words = append(words, "watched")
		for _, i := range e.Health {
			words = append(words, fmt.Sprintf("%s:%d:%s", i.Watch, i.Result, i.Error))
		}
	}
	for _, p := range e.Peers {
		words = append(words, fmt.Sprintf("peer %d:%d", p.GPU, p.Status))
	}
	return words
}

func values(all []collect.Value) (words []string) {
	for _, v := range all {
		if v.IsText {
			words = append(words, fmt.Sprintf("%d=%q", v.Field, v.Text))
		} else {
			words = append(words, fmt.Sprintf("%d=%.7g", v.Field, v.Number))
		}
	}
	return words
}
