package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/procstat"
	"github.com/gpuscale/gpuscale/internal/require"
)

// benchMachine has H100s with values in the fields of dcgm-exporter's default counters and of our own series.
// Partitioned ones have seven instances each.
func benchMachine(gpus int, partitioned bool) fakenvml.State {
	values := func(fields ...uint16) fakenvml.Lines {
		out := map[uint16]float64{}
		for _, f := range fields {
			switch {
			case f == 230 || f == 395:
				out[f] = 0
			case f > 1000 && f < 1009:
				out[f] = 0.123456
			case f >= 203 && f <= 207:
				out[f] = 37
			default:
				out[f] = float64(f) + 0.345
			}
		}
		return fakedcgm.Fields(out)
	}
	s := fakenvml.State{Engine: engineAddress + " 1", Driver: "580.65.06"}
	h100, _ := mig.ForModel("H100-80GB")
	for i := range gpus {
		device := fakenvml.GPU{
			UUID: fmt.Sprintf("GPU-5a1f2b3c-0000-0000-0000-%012d", i), Name: "NVIDIA H100 80GB HBM3", Minor: i,
			MemoryMiB: 81559, MIG: partitioned, Spec: h100.Spec(),
			Values: values(100, 101, 112, 140, 150, 155, 156, 202, 203, 204, 206, 207, 230, 251, 252, 253, 390, 391, 392, 393, 394, 395, 449, 1001, 1004, 1005, 1009, 1010),
		}
		for j := 0; partitioned && j < 7; j++ {
			device.Instances = append(device.Instances, fakenvml.Instance{
				ID: j + 7, Placement: mig.Placement{Profile: mig.Profile{Compute: 1, Memory: 1}, Start: j},
				Computes: fakenvml.Whole(fmt.Sprintf("MIG-5a1f2b3c-0000-%04d-0000-%012d", i, j)), Values: values(250, 251, 252, 253, 1001, 1004, 1005),
			})
		}
		s.GPUs = append(s.GPUs, device)
	}
	return s
}

// BenchmarkScrape measures the exporter as a process, scraped over one connection: on the fake of DCGM, and on NVIDIA's
// own where that is installed, beside the dcgm-exporter that is named. The fake takes no time, so its memory and idle
// figures are too low: it compares two versions of the exporter.
func BenchmarkScrape(b *testing.B) {
	for _, partitioned := range []bool{false, true} {
		name := map[bool]string{false: "8 GPUs", true: "8 x 7 MIG"}[partitioned]
		for _, where := range []string{"remote", "embedded"} {
			b.Run("fake, "+where+", "+name, func(b *testing.B) {
				file := filepath.Join(b.TempDir(), "state")
				require.NoError(b, benchMachine(8, partitioned).Write(file))
				b.Setenv("LD_LIBRARY_PATH", fakeDCGM(b))
				b.Setenv(fakenvml.EnvState, file)
				var args []string
				if where == "remote" {
					args = []string{"-r", engineAddress}
				}
				scrape(b, args...)
			})
		}
	}
	b.Run("real, remote", func(b *testing.B) {
		engine := newRealEngine(b)
		engine.start()
		scrape(b, "-r", engine.address())
	})
	b.Run("real, embedded", func(b *testing.B) {
		realLibrary(b, "libdcgm.so.4")
		scrape(b, "--source", "dcgm")
	})
	for _, where := range []string{"remote", "embedded"} {
		b.Run("dcgm-exporter, "+where, func(b *testing.B) {
			engine, args := newRealEngine(b), []string(nil)
			if where == "remote" {
				engine.start()
				args = []string{"-r", engine.address()}
			}
			base, pid := startRealExporter(b, realCounters(b, ""), args...)
			measure(b, base, pid)
		})
	}
}

// idle is how long the idle exporter is measured.
const idle = 10 * time.Second

func scrape(b *testing.B, args ...string) {
	e := start(b, args...)
	realReady(b, e)
	measure(b, e.base, e.Pid)
}

// measure scrapes a process over one connection, and then lets it be idle.
func measure(b *testing.B, base string, pid int) {
	client := http.Client{Transport: &http.Transport{DisableCompression: true}}
	var body bytes.Buffer
	once := func() {
		response, err := client.Get(base + "/metrics")
		require.NoError(b, err)
		defer response.Body.Close()
		body.Reset()
		_, err = io.Copy(&body, response.Body)
		require.NoError(b, err)
	}
	for range 20 { // until buffers and caches are as in the long run
		once()
	}
	var took []time.Duration
	used := procstat.CPU(pid)
	for b.Loop() {
		began := time.Now()
		once()
		took = append(took, time.Since(began))
	}
	b.ReportMetric((procstat.CPU(pid)-used).Seconds()*1000/float64(len(took)), "cpu-ms/scrape")
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(float64(body.Len()), "bytes")

	used = procstat.CPU(pid)
	<-time.After(idle)
	b.ReportMetric(100*(procstat.CPU(pid)-used).Seconds()/idle.Seconds(), "idle-%")
	b.ReportMetric(float64(procstat.Memory(pid).Now)/1e6, "rss-MB")
}
