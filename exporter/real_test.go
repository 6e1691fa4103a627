package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// The tests below run against NVIDIA's own software where it is installed, and report why they do not elsewhere. They
// need neither the source nor Go: "go test -c" makes a program that can be copied.
const (
	// envRealLibraries is a list of folders with libdcgm.so.4 and, for injection, NVIDIA's
	// libnvml_injection.so.1; the loader's own path is searched too. DCGM takes
	// NVML_INJECTION_MODE and NVML_YAML_FILE from the environment.
	envRealLibraries = "GPUSCALE_REAL_LIBRARIES"
	// envRealEngine and envRealExporter are nv-hostengine, which is looked for on the path
	// too, and dcgm-exporter, which is compared with only where it is named.
	envRealEngine   = "GPUSCALE_REAL_HOSTENGINE"
	envRealExporter = "GPUSCALE_REAL_DCGM_EXPORTER"
)

// realLibrary finds a library as a process with the folders on its path does.
func realLibrary(t testing.TB, name string) {
	t.Helper()
	folders := filepath.SplitList(os.Getenv(envRealLibraries))
	folders = append(folders, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	t.Setenv("LD_LIBRARY_PATH", strings.Join(folders, ":"))
	if !installed(name, folders...) {
		t.Skipf("%s is not on this machine; %s names folders to look in", name, envRealLibraries)
	}
}

// installed reports a library in one of the folders or where the loader looks.
func installed(name string, folders ...string) bool {
	for _, folder := range append(folders, "/lib64", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu") {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return true
		}
	}
	cache, err := exec.Command("ldconfig", "-p").Output()
	return err == nil && bytes.Contains(cache, []byte(name))
}

// poll tries for a minute.
func poll(t testing.TB, try func() error) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return await.Until(ctx, func(context.Context) error { return try() })
}

// realEngine is a host engine of the test's own.
type realEngine struct {
	t             testing.TB
	program, port string
	log           string
	process       *exec.Cmd
	ended         chan struct{} // closed when the process has ended
}

func newRealEngine(t testing.TB) *realEngine {
	t.Helper()
	realLibrary(t, "libdcgm.so.4")
	program, err := exec.LookPath(cmp.Or(os.Getenv(envRealEngine), "nv-hostengine"))
	if err != nil {
		t.Skipf("no host engine to start: %v; %s names one", err, envRealEngine)
	}
	_, port, _ := net.SplitHostPort(unusedAddress(t))
	return &realEngine{t: t, program: program, port: port, log: filepath.Join(t.TempDir(), "engine.log")}
}

// unusedAddress is one to listen on.
func unusedAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (e *realEngine) address() string { return "127.0.0.1:" + e.port }

// start runs the engine until it listens.
func (e *realEngine) start() {
	e.t.Helper()
	var output bytes.Buffer
	e.process = exec.Command(e.program, "-n", "-b", "127.0.0.1", "-p", e.port, "--pid", e.log+".pid", "-f", e.log, "--log-level", "ERROR")
	e.process.Stdout, e.process.Stderr = &output, &output
	e.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // it ends with the test, whatever ends that
	require.NoError(e.t, e.process.Start())
	process, ended := e.process, make(chan struct{})
	e.ended = ended
	go func() { _ = process.Wait(); close(ended) }()
	e.t.Cleanup(func() { e.end(syscall.SIGTERM) })
	err := poll(e.t, func() error {
		select {
		case <-ended:
			return await.Final(errors.New("it ended"))
		default:
		}
		conn, err := net.Dial("tcp", e.address())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		e.end(syscall.SIGKILL)
		e.t.Fatalf("%s does not listen: %v\n%s", e.program, err, output.String())
	}
}

// end stops the engine. By SIGTERM it releases the GPUs' profiling hardware itself. A process that has not ended after
// half a minute is killed.
func (e *realEngine) end(by syscall.Signal) {
	_ = e.process.Process.Signal(by)
	select {
	case <-e.ended:
	case <-time.After(30 * time.Second):
		_ = e.process.Process.Kill()
		<-e.ended
	}
}

// realPage is a page's series by name and labels, without those that differ intentionally.
type realPage map[string]float64

func pageAt(t testing.TB, url string) realPage {
	t.Helper()
	_, text := get(t, url)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	page := realPage{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "hostname" && l.GetName() != "Hostname" && l.GetValue() != "" {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
			}
			slices.Sort(labels)
			page[name+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue() // one of them
		}
	}
	return page
}

// of are the series whose names have the prefix.
func (p realPage) of(prefix string) realPage {
	out := maps.Clone(p)
	maps.DeleteFunc(out, func(series string, _ float64) bool { return !strings.HasPrefix(series, prefix) })
	return out
}

// label is a label's value of a series.
func label(series, name string) string {
	_, rest, _ := strings.Cut(series, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// realReady waits until the exporter serves GPUs. A machine without any, or without a driver,
// skips the test.
func realReady(t testing.TB, e *exporter) realPage {
	t.Helper()
	var page realPage
	why := ""
	err := poll(t, func() error {
		code, text := get(t, e.base+"/readyz")
		page = pageAt(t, e.base+"/metrics")
		if why = text; code != http.StatusOK || len(page.of("gpu_info{")) == 0 || page["gpuscale_exporter_source_up{}"] != 1 {
			return errors.New(text)
		}
		return nil
	})
	if err == nil {
		return page
	}
	for _, absent := range []string{"driver is not", "without NVIDIA's driver", "no GPU"} {
		if len(page.of("gpu_info{")) == 0 && strings.Contains(why, absent) {
			t.Skipf("the software is here and GPUs are not: %s", why)
		}
	}
	t.Fatalf("not ready: %s\n%s", why, e.log)
	return nil
}

// checkPage checks what is true of every machine. It retries for a minute, since some values come with a later sample.
func checkPage(t *testing.T, e *exporter) {
	t.Helper()
	fields, err := counters.Default()
	require.NoError(t, err)
	var page realPage
	err = poll(t, func() error {
		page = pageAt(t, e.base+"/metrics")
		return wrongOf(page, fields)
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d GPUs, %d MIG instances, %d series", len(page.of("gpu_info{")), len(page.of("gpu_instance_info{")), len(page))
	for _, f := range fields {
		if f.Kind != counters.Label && len(page.of(f.Name+"{")) == 0 {
			t.Logf("%s has no series here", f.Name)
		}
	}
}

// wrongOf returns all that is wrong with the page for a healthy machine.
func wrongOf(page realPage, fields []counters.Field) error {
	var wrong []error
	gpus := page.of("gpu_info{")
	if len(gpus) == 0 {
		wrong = append(wrong, errors.New("no GPU is on the page"))
	}
	for series := range gpus {
		uuid := label(series, "gpu_uuid")
		of := func(name string) (n int) {
			for other := range page.of(name + "{") {
				if label(other, "gpu_uuid") == uuid {
					n++
				}
			}
			return n
		}
		if n := of("gpu_healthy"); n != 1 {
			wrong = append(wrong, fmt.Errorf("%s has %d series of gpu_healthy", uuid, n))
		}
		if of("gpu_memory_used_bytes") == 0 || of("gpu_power_watts") == 0 {
			wrong = append(wrong, fmt.Errorf("%s has no memory or no power", uuid))
		}
	}
	for _, f := range fields {
		for series, value := range page.of(f.Name + "{") {
			if !collect.Plausible(f.ID, &value) {
				wrong = append(wrong, fmt.Errorf("%s %v is impossible", series, value))
			}
		}
	}
	return errors.Join(wrong...)
}

// sameAs compares our values with another program's, series by series. Both sample at their own times, so ours may be
// anything between its answer before and its answer after. Each series has a minute for that.
func sameAs(t *testing.T, ours, theirs func() realPage) {
	t.Helper()
	open, extra, equal, first := realPage{}, realPage{}, 0, true
	_ = poll(t, func() error {
		before, our, after := theirs(), ours(), theirs()
		next := realPage{}
		for series, a := range before {
			b, still := after[series]
			value, has := our[series]
			if _, tried := open[series]; !first && !tried || !still {
				continue
			}
			slack := 1 + 0.1*max(math.Abs(a), math.Abs(b))
			if has && value >= min(a, b)-slack && value <= max(a, b)+slack {
				equal++
				continue
			}
			next[series] = a
		}
		open = next
		for series, value := range our {
			if _, has := before[series]; first && !has {
				extra[series] = value
			}
			if _, has := after[series]; has {
				delete(extra, series)
			}
		}
		first = false
		if n := len(open) + len(extra); n > 0 {
			return fmt.Errorf("%d series differ", n)
		}
		return nil
	})
	if t.Logf("%d series agree", equal); equal == 0 {
		t.Error("nothing was compared")
	}
	our := ours()
	for _, series := range slices.Sorted(maps.Keys(open)) {
		if value, has := our[series]; has {
			t.Errorf("%s is %v there and %v here", series, open[series], value)
		} else {
			t.Errorf("%s is %v there and not here", series, open[series])
		}
	}
	for _, series := range slices.Sorted(maps.Keys(extra)) {
		t.Errorf("%s is %v here and not there", series, extra[series])
	}
}

func TestRealHostEngine(t *testing.T) {
	engine := newRealEngine(t)
	engine.start()
	e := start(t, "-r", engine.address(), "-c", "1000")
	realReady(t, e)
	checkPage(t, e)
	t.Run("the engine's log", func(t *testing.T) {
		until(t, "ten readings", func() (bool, string) {
			n := pageAt(t, e.base+"/metrics")[`gpuscale_exporter_reads_total{result="ok"}`]
			return n >= 10, fmt.Sprint(n)
		})
		text, err := os.ReadFile(engine.log)
		if err != nil {
			t.Skipf("the host engine wrote no log: %v", err)
		}
		if n := bytes.Count(text, []byte("not being watched")); n > 0 {
			t.Errorf("%d lines of reading what is not watched", n)
		}
		refused := map[string]int{}
		for line := range strings.Lines(string(text)) {
			if _, what, is := strings.Cut(line, "GetLatestSample returned "); is {
				refused[what]++
			}
		}
		for what, n := range refused {
			if n > 3 { // of ten tries
				t.Errorf("read %d times: %s", n, what)
			}
		}
	})
	t.Run("the field table", func(t *testing.T) { compareTable(t, engine.address()) })
	t.Run("beside dcgm-exporter", func(t *testing.T) {
		file := realCounters(t, "DCGM_EXP_GPU_HEALTH_STATUS, gauge, x\nDCGM_EXP_XID_ERRORS_COUNT, gauge, x\n")
		base, _ := startRealExporter(t, file, "-r", engine.address())
		e := start(t, "-r", engine.address(), "-c", "1000", "-f", file)
		sameAs(t, func() realPage { return pageAt(t, e.base+"/metrics").of("DCGM_") },
			func() realPage { return pageAt(t, base+"/metrics").of("DCGM_") })
	})
	t.Run("killed and started again", func(t *testing.T) {
		engine.end(syscall.SIGKILL)
		until(t, "values vanish", func() (bool, string) {
			page := pageAt(t, e.base+"/metrics")
			return len(page.of("DCGM_FI_")) == 0 && page["gpuscale_exporter_source_up{}"] == 0, fmt.Sprint(len(page), " series")
		})
		engine.start()
		realReady(t, e)
		checkPage(t, e)
	})
	e.terminate(t)
}

func TestRealEmbedded(t *testing.T) {
	realLibrary(t, "libdcgm.so.4")
	socket := filepath.Join(t.TempDir(), "exporter.sock")
	e := start(t, "--source", "dcgm", "-c", "1000", "--quiesce-socket="+socket)
	page := realReady(t, e)
	checkPage(t, e)
	checkRelease(t, e, socket, page)
	e.terminate(t)
}

// The driver's library, beside nvidia-smi where there is one.
func TestRealNVML(t *testing.T) {
	realLibrary(t, "libnvidia-ml.so.1")
	socket := filepath.Join(t.TempDir(), "exporter.sock")
	e := start(t, "--source", "nvml", "-c", "1000", "--quiesce-socket="+socket)
	realReady(t, e)
	checkPage(t, e)
	page := pageAt(t, e.base+"/metrics")
	t.Run("as nvidia-smi says", func(t *testing.T) {
		out, err := exec.Command("nvidia-smi", "--query-gpu=uuid,mig.mode.current,memory.total,temperature.gpu,driver_version", "--format=csv,noheader,nounits").Output()
		if err != nil {
			t.Skipf("nvidia-smi: %v", err)
		}
		seen := 0
		for line := range strings.Lines(string(out)) {
			words := strings.Split(strings.TrimSpace(line), ", ")
			if len(words) != 5 {
				t.Fatalf("nvidia-smi says %q", line)
			}
			seen++
			checkSMI(t, page, words)
		}
		if n := len(page.of("gpu_info{")); n != seen {
			t.Errorf("%d GPUs here and %d there", n, seen)
		}
	})
	checkRelease(t, e, socket, page)
	e.terminate(t)
}

// checkRelease checks that no device file of a GPU is open while all GPUs are released, and that the page is complete
// afterwards.
func checkRelease(t *testing.T, e *exporter, socket string, page realPage) {
	t.Helper()
	deviceFiles := func() (open []string) {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", e.Pid))
		require.NoError(t, err)
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && regexp.MustCompile(`^(/dev/|/memfd:)nvidia\d`).MatchString(to) {
				open = append(open, to)
			}
		}
		return open
	}
	if len(deviceFiles()) == 0 && os.Getenv("NVML_INJECTION_MODE") == "" { // injection opens none
		t.Error("no device file of a GPU is open before the release: nothing is compared")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	request := func(text string) {
		answer, err := client.Post("http://exporter/", "application/json", strings.NewReader(text))
		require.NoError(t, err)
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s", text, answer.Status, body)
		}
	}
	var uuids []string
	for series := range page.of("gpu_info{") {
		uuids = append(uuids, strconv.Quote(label(series, "gpu_uuid")))
	}
	gpus := strings.Join(uuids, ",")
	request(`{"op":"quiesce","seconds":60,"gpus":[` + gpus + `]}`)
	until(t, "values vanish", func() (bool, string) {
		return len(pageAt(t, e.base+"/metrics").of("DCGM_FI_")) == 0, "series of GPUs"
	})
	if open := deviceFiles(); len(open) > 0 {
		t.Errorf("released, and open: %q", open)
	}
	request(`{"op":"resume","gpus":[` + gpus + `]}`)
	realReady(t, e)
}

func checkSMI(t *testing.T, page realPage, words []string) {
	t.Helper()
	value := func(name string) (float64, bool) {
		for series, v := range page.of(name + "{") {
			if strings.Contains(series, words[0]) {
				return v, true
			}
		}
		return 0, false
	}
	if _, known := value("gpu_info"); !known {
		t.Errorf("no GPU %s", words[0])
	}
	if mib, err := strconv.ParseFloat(words[2], 64); err == nil && words[1] != "Enabled" {
		if got, _ := value("gpu_memory_total_bytes"); got != mib*(1<<20) {
			t.Errorf("%s has %v bytes here and %v MiB there", words[0], got, mib)
		}
	}
	if degrees, err := strconv.ParseFloat(words[3], 64); err == nil {
		if got, _ := value("DCGM_FI_DEV_GPU_TEMP"); words[1] != "Enabled" && math.Abs(got-degrees) > 15 {
			t.Errorf("%s is at %v degrees here and at %v there", words[0], got, degrees)
		}
	}
	for series := range page.of("gpu_info{") {
		if strings.Contains(series, words[0]) && label(series, "driver_version") != words[4] {
			t.Errorf("%s has driver %s here and %s there", words[0], label(series, "driver_version"), words[4])
		}
	}
}

// realCounters writes a file of our default counters and further lines.
func realCounters(t testing.TB, further string) (file string) {
	t.Helper()
	fields, err := counters.Default()
	require.NoError(t, err)
	var rows [][]string
	for _, f := range fields {
		rows = append(rows, []string{f.Name, string(f.Kind), f.Help})
	}
	var text bytes.Buffer
	require.NoError(t, csv.NewWriter(&text).WriteAll(rows))
	text.WriteString(further)
	file = filepath.Join(t.TempDir(), "counters.csv")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

// startRealExporter runs the dcgm-exporter that is named with a file of counters and our interval.
func startRealExporter(t testing.TB, file string, args ...string) (base string, pid int) {
	t.Helper()
	program := os.Getenv(envRealExporter)
	if program == "" {
		t.Skipf("%s names no dcgm-exporter to compare with", envRealExporter)
	}
	address := unusedAddress(t)
	var output bytes.Buffer
	cmd := exec.Command(program, append(args, "-a", address, "-c", "1000", "-f", file)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	base = "http://" + address
	err := poll(t, func() error {
		resp, err := http.Get(base + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Contains(body, []byte("DCGM_FI_DEV_")) {
			return fmt.Errorf("no series yet: %w", err)
		}
		return nil
	})
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatalf("%s does not serve: %v\n%s", program, err, output.String())
	}
	return base, cmd.Process.Pid
}

// realTableMain prints the field table of the library that it finds, in a process of its own: a
// library that was loaded once stays.
func realTableMain() {
	if _, err := godcgm.Init(godcgm.Standalone, os.Args[1], "0"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	godcgm.FieldsInit()
	table := map[uint16]godcgm.FieldMeta{}
	for id := range uint16(2000) {
		if meta, err := godcgm.FieldGetByID(godcgm.Short(id)); err == nil && meta.FieldID == godcgm.Short(id) && id > 0 {
			table[id] = meta
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(table) // the reader reports what is missing
}

// compareTable compares the fake's field table with the library's. Versions may differ, except for what the default
// counters read.
func compareTable(t *testing.T, engine string) {
	t.Helper()
	table := func(engine string) (fields map[uint16]godcgm.FieldMeta) {
		out, err := exec.Command("gpuscale-real-table", engine).Output()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(out, &fields))
		return fields
	}
	real := table(engine)
	t.Setenv("LD_LIBRARY_PATH", fakeDCGM(t))
	file := filepath.Join(t.TempDir(), "state")
	require.NoError(t, machine().Write(file))
	t.Setenv(fakenvml.EnvState, file)
	fake := table(engineAddress)
	if len(real) == 0 {
		t.Fatal("the library has no field")
	}
	fields, err := counters.Default()
	require.NoError(t, err)
	differ := 0
	for id, f := range real {
		if fake[id].FieldType == f.FieldType && fake[id].EntityLevel == f.EntityLevel {
			continue
		}
		differ++
		t.Logf("field %d (%s): type %c of level %d there, %c of %d in the fake", id, counters.FieldName(id), f.FieldType, f.EntityLevel, fake[id].FieldType, fake[id].EntityLevel)
		if slices.ContainsFunc(fields, func(f counters.Field) bool { return f.ID == id }) {
			t.Errorf("the default counters read field %d, which is another one in the fake", id)
		}
	}
	t.Logf("%d fields, %d differ from the fake's table of %d", len(real), differ, len(fake))
}
