package dcgm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collecttest"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestScenarios runs testdata/scenarios/*.txt. The input of each command changes the machine first:
//
//	N FIELD=VALUE …                a GPU's values, or its odd answers: see fakedcgm.Field
//	N lost, N back, N away         the GPU falls off the bus, answers again, is taken out
//	N detached                     of the driver, until it is back
//	N index=I, N profiling=F,…
//	mig N LAYOUT, whole N          as fakenvml.Product has it
//	computes N I UUID              a further compute instance of the I-th instance
//	xid N CODE TIME [kernel]       TIME is after the opening and in the past, "now" the source's clock
//	xid N/I CODE TIME [compute]
//	xids N CODE COUNT              a millisecond apart
//	devices, link I up, uplink N INDEX FIELD=VALUE, switch FIELD=VALUE
//	line NAME VALUE, no NAME       see fakedcgm and fakenvml.State.Lines; those whose name begins so
//
// machine gpus=N fields=(F, …) opens a source of a new machine, with the option remote or socket one
// over a host engine on TCP or on a unix socket: default are the default counters' fields, and
// health and peers what those of dcgm-exporter ask for. read prints each of times=N readings that
// differs from the one before, with identity and health where it has these options. kill and
// engine end and begin the host engine, advance by=D moves the source's clock, quiesce gpus=(N, …) is
// the source's. -rewrite writes the outputs again.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s scene
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var gpus []int
			d.MaybeScanArgs(t, "gpus", &gpus)
			if d.Cmd == "machine" {
				if s.source != nil {
					s.source.Close()
				}
				s = scene{machine: newMachine(t, gpus[0]), clock: &clock{}}
			}
			for line := range strings.Lines(d.Input) {
				s.change(strings.Fields(line))
			}
			s.write()
			switch d.Cmd {
			case "machine":
				s.open(d)
			case "read":
				return collecttest.Show(t, d, s.read)
			case "kill":
				s.Engine = ""
				s.write()
				_, err := s.read()
				return fmt.Sprint("refused: ", err != nil)
			case "engine":
				s.engine(s.source.options.Address)
			case "advance":
				var by time.Duration
				d.ScanArgs(t, "by", &by)
				s.clock.advance(by)
			case "quiesce":
				var uuids []string
				for _, i := range gpus {
					uuids = append(uuids, s.GPUs[i].UUID)
				}
				if err := s.source.Quiesce(uuids); err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%d GPUs and %d instances are held\n", len(s.source.layout.keys(kindGPU)), len(s.source.layout.keys(kindInstance)))
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
			}
			return ""
		})
	})
}

type scene struct {
	*machine
	clock  *clock
	began  time.Time // a time in the past, after the opening
	source *reader
}

func numbers(t testing.TB, words []string) (out []int) {
	for _, word := range words {
		n, err := strconv.Atoi(word)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

func (s *scene) read() (*collect.Reading, error) {
	s.source.learned = time.Time{} // it looks for devices too
	r, err := s.source.Read()
	if err != nil {
		err = errors.New("refused")
	}
	return r, err
}

func (s *scene) open(d *datadriven.TestData) {
	var names []string
	var fields []uint16
	d.ScanArgs(s.t, "fields", &names)
	for _, word := range names {
		switch word {
		case "default":
			fields = append(fields, defaults...)
		case "health":
			fields = append(fields, collect.AskHealth)
		case "peers":
			fields = append(fields, collect.AskPeers)
		default:
			fields = append(fields, uint16(numbers(s.t, []string{word})[0]))
		}
	}
	o := Options{now: s.clock.now}
	for arg, address := range map[string]string{"remote": onTCP, "socket": "/run/nvidia/engine"} {
		if d.HasArg(arg) {
			o.Address = s.engine(address)
		}
	}
	s.clock.advance(-time.Hour)
	s.began = s.clock.now().Add(10 * time.Minute).Truncate(time.Microsecond)
	s.source = open(s.t, o)
	s.clock.advance(time.Hour)
	watchFields(s.t, s.source, fields...)
}

func (s *scene) change(words []string) {
	n := func(i int) int { return numbers(s.t, words[i:i+1])[0] }
	switch words[0] {
	case "mig":
		s.partition(n(1), strings.Join(words[2:], " "))
	case "whole":
		s.GPUs[n(1)].MIG, s.GPUs[n(1)].Instances = false, nil
	case "computes":
		i := &s.GPUs[n(1)].Instances[n(2)]
		i.Computes = []fakenvml.Compute{{Slices: 1, UUID: i.Computes[0].UUID}, {ID: 1, Slices: 1, UUID: words[3]}}
	case "xid":
		s.xid(words[1:])
	case "xids":
		for k := range n(3) {
			s.xid([]string{words[1], words[2], fmt.Sprint(k, "ms")})
		}
	case "devices":
		s.addDevices()
	case "link":
		s.Parts[n(1)].Values["up"] = "1"
	case "uplink":
		link := fakenvml.Part{Kind: fakedcgm.KindLink, ID: fakedcgm.LinkID(fakedcgm.KindGPU, n(1), n(2)), Values: fakenvml.Lines{"up": "1"}}
		answers(link.Values, words[3:])
		s.Parts = append(s.Parts, link)
	case "switch":
		answers(s.Parts[0].Values, words[1:])
	case "line":
		s.Lines[words[1]] = strings.Join(words[2:], " ")
	case "no":
		maps.DeleteFunc(s.Lines, func(name, _ string) bool { return strings.HasPrefix(name, words[1]) })
	default:
		gpu := &s.GPUs[n(0)]
		name, value, _ := strings.Cut(words[1], "=")
		switch name {
		case "lost":
			gpu.Lost = true
		case "detached", "away":
			gpu.Values[name] = "1"
		case "back":
			gpu.Lost = false
			delete(gpu.Values, "detached")
			delete(gpu.Values, "away")
		case "index":
			s.set(n(0), 52, value)
		case "profiling":
			gpu.Values["profiled"] = strings.ReplaceAll(value, ",", " ")
		default:
			answers(gpu.Values, words[1:])
		}
	}
}

// answers sets "FIELD=NUMBER" and "FIELD=ODD".
func answers(values fakenvml.Lines, words []string) {
	for _, word := range words {
		field, value, _ := strings.Cut(word, "=")
		if n, err := strconv.ParseFloat(value, 64); err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			value = "!" + value
		}
		values["f."+field] = value
	}
}

func (s *scene) xid(words []string) {
	gpu, on, _ := strings.Cut(words[0], "/")
	x := fakenvml.XID{Code: numbers(s.t, words[1:2])[0], At: s.clock.now().UnixMicro()}
	if words[2] != "now" {
		after, err := time.ParseDuration(words[2])
		require.NoError(s.t, err)
		x.At = s.began.Add(after).UnixMicro()
	}
	of := &s.GPUs[numbers(s.t, []string{gpu})[0]]
	if on != "" {
		i := of.Instances[numbers(s.t, []string{on})[0]]
		if x.On = fmt.Sprint(i.ID); slices.Contains(words, "compute") {
			x.On = fmt.Sprintf("%d/%d", i.ID, i.Computes[0].ID)
		}
	}
	of.XIDs = append(of.XIDs, x)
	s.kernel[x] = slices.Contains(words, "kernel")
}
