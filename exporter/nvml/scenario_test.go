package nvml

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/exporter/collecttest"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestScenarios runs testdata/scenarios/*.txt. The input of each command changes the machine first:
//
//	h100, mig                    another GPU: main_test.go's h100 and repartitionGPU
//	refuse FUNCTION CODE, driver VERSION
//	N lost, N back, N away       the GPU falls off the bus, answers again, is taken out
//	N mig                        becomes one in MIG mode
//	N layout ID:START:COMPUTE:MEMORY:UUID …
//	N xids CODE …, N deaf        CODE@GPU-INSTANCE/COMPUTE-INSTANCE too; a driver without such events
//	N NAME VALUE                 as fakenvml.GPU.Values has it
//
// machine fields=(F, …) opens a source of a new machine. read prints each of times=N readings that
// differs from the one before, with identity and health where it has these options. watch
// fields=(F, …) and quiesce gpus=(N, …) are the source's; open and quiesce print whose device
// files are open. -rewrite writes the outputs again.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s scene
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "machine" {
				if s.source != nil {
					s.source.close()
				}
				s = scene{state: fakenvml.State{Driver: "580.65.06"}, away: map[int]bool{}}
			}
			for line := range strings.Lines(d.Input) {
				s.change(t, strings.Fields(line))
			}
			var fields []uint16
			d.MaybeScanArgs(t, "fields", &fields)
			if s.source == nil {
				s.source, s.set = watching(t, s.state, fields...)
				return ""
			}
			s.write()
			switch d.Cmd {
			case "read":
				return collecttest.Show(t, d, s.source.Read)
			case "watch":
				s.source.Watch(fields, time.Second, nil)
			case "quiesce":
				var gpus []int
				var uuids []string
				d.MaybeScanArgs(t, "gpus", &gpus)
				for _, i := range gpus {
					uuids = append(uuids, fakenvml.GPUUUID(i))
				}
				if err := s.source.Quiesce(uuids); err != nil {
					return err.Error()
				}
				return openFiles(t)
			case "open":
				return openFiles(t)
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
			}
			return ""
		})
	})
}

type scene struct {
	state  fakenvml.State
	away   map[int]bool
	source *Source
	set    func(fakenvml.State)
}

func number(t *testing.T, word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(t, err)
	return n
}

func (s *scene) change(t *testing.T, words []string) {
	i := len(s.state.GPUs)
	switch words[0] {
	case "h100":
		s.state.GPUs = append(s.state.GPUs, h100(i))
		return
	case "mig":
		s.state.GPUs = append(s.state.GPUs, repartitionGPU(i))
		return
	case "refuse":
		s.state.Lines = fakenvml.Lines{"fail." + words[1]: words[2]}
		return
	case "driver":
		s.state.Driver = words[1]
		return
	}
	i = number(t, words[0])
	gpu := &s.state.GPUs[i]
	switch rest := words[2:]; words[1] {
	case "lost":
		gpu.Lost, s.away[i] = true, false
	case "back":
		gpu.Lost, s.away[i] = false, false
	case "away":
		s.away[i] = true
	case "mig":
		*gpu = repartitionGPU(i)
	case "layout":
		gpu.Instances = nil
		for _, word := range rest {
			var n []int
			for part := range strings.SplitSeq(word, ":") {
				n = append(n, number(t, part))
			}
			gpu.Instances = append(gpu.Instances, fakenvml.Instance{ID: n[0], Placement: at(n[1], n[2], n[3]), Computes: fakenvml.Whole(fakenvml.MIGUUID(i, n[4]))})
		}
	case "deaf":
		gpu.XIDs = nil
	case "xids":
		gpu.XIDs = fakenvml.XIDs()
		for _, code := range rest {
			code, on, _ := strings.Cut(code, "@")
			gpu.XIDs = append(gpu.XIDs, fakenvml.XID{Code: number(t, code), On: on})
		}
	default:
		gpu.Values[words[1]] = strings.Join(rest, " ")
	}
}

func (s *scene) write() {
	now := s.state
	now.GPUs = nil
	for i, gpu := range s.state.GPUs {
		if !s.away[i] {
			now.GPUs = append(now.GPUs, gpu)
		}
	}
	s.set(now)
}

// openFiles names the GPUs' device files that this process has open, those of open handles separately.
func openFiles(t *testing.T) string {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	var open []string
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "/memfd:nvidia") {
			open = append(open, strings.TrimSuffix(strings.TrimPrefix(to, "/memfd:"), " (deleted)"))
		}
	}
	slices.Sort(open)
	return cmp.Or(strings.Join(open, " "), "no device file is open")
}
