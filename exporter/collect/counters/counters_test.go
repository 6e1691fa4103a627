package counters

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestDefaults(t *testing.T) {
	fields, err := Default()
	require.NoError(t, err)
	labels := 0
	for _, f := range fields {
		if f.Kind == Label {
			labels++
		}
	}
	if len(fields) != 26 || labels != 1 {
		t.Errorf("%d counters with %d labels, want dcgm-exporter's 26 with 1", len(fields), labels)
	}
}

// Each bad file has in its first line what the error must contain.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			parsed, err := Parse(filepath.Base(file), strings.NewReader(string(text)))
			if strings.HasPrefix(filepath.Base(file), "good") {
				if err != nil || len(parsed.Fields) == 0 {
					t.Fatalf("%d fields, %v", len(parsed.Fields), err)
				}
				checkWarnings(t, string(text), parsed.Warnings)
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for line := range strings.Lines(string(text)) {
				want, ok := strings.CutPrefix(line, "# want: ")
				if ok && !strings.Contains(err.Error(), strings.TrimSpace(want)) {
					t.Errorf("error lacks %q:\n%v", strings.TrimSpace(want), err)
				}
			}
		})
	}
}

// checkWarnings compares all warnings with a file's "# warn: " lines.
func checkWarnings(t *testing.T, text string, warnings []*Error) {
	t.Helper()
	var got, want []string
	for line := range strings.Lines(text) {
		if warning, ok := strings.CutPrefix(line, "# warn: "); ok {
			want = append(want, strings.TrimSpace(warning))
		}
	}
	for _, w := range warnings {
		got = append(got, w.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}

// Marks and line endings of editors and Windows change nothing in a file.
func TestMarksAndLineEndings(t *testing.T) {
	plain, err := Parse("f", strings.NewReader(defaultText))
	require.NoError(t, err)
	crlf := strings.ReplaceAll(defaultText, "\n", "\r\n")
	for name, text := range map[string]string{
		"mark": "\uFEFF" + defaultText, "CRLF": crlf, "both": "\uFEFF" + crlf,
		"mark before a field": "\uFEFF" + regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(defaultText, ""),
		"no newline at end":   strings.TrimRight(defaultText, "\n"),
	} {
		got, err := Parse("f", strings.NewReader(text))
		if err != nil || !slices.Equal(got.Fields, plain.Fields) {
			t.Errorf("%s: %v, fields %v", name, err, got.Fields)
		}
	}
}

func TestComputed(t *testing.T) {
	for name, id := range computedNames {
		parsed, err := Parse("f", strings.NewReader(name+", counter, \"c, d\""))
		if err != nil || len(parsed.Fields) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		if f := parsed.Fields[0]; f != (Field{ID: id, Name: name, Kind: Counter, Help: "c, d"}) || !f.Computed() {
			t.Errorf("%s = %+v", name, f)
		}
	}
	// The numbers of our own counters are not DCGM's.
	if _, err := Parse("f", strings.NewReader("9001, gauge, x")); err == nil {
		t.Error("9001 was taken for a DCGM field")
	}
	if (Field{ID: 203}).Computed() {
		t.Error("a DCGM field was taken for a computed one")
	}
}

func TestFieldNamesAndNumbers(t *testing.T) {
	for name, want := range map[string]uint16{
		"DCGM_FI_DEV_GPU_UTIL": 203, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1001, "dcgm_gpu_utilization": 203, "1098": 1098,
		// Names that DCGM 4.6 changed, restored, or calls deprecated: of counters files of dcgm-exporter from 4.8.4 on,
		// and of before 3.3.
		"DCGM_FI_DEV_XID_ERROR": 230, "DCGM_FI_PROF_TENSOR_UTIL_RATIO": 1004,
		"DCGM_FI_DEV_GPU_BRAND": 51, "DCGM_FI_SYSTEM_DRIVER_VERSION": 1, "DCGM_FI_DEV_ROW_REMAP_FAILED": 395,
		"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L12_TOTAL": 406, "DCGM_FI_PROF_NVJPG_UTIL_7_RATIO": 1032,
		"DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL": 1085, "DCGM_FI_DEV_NVLINK_THROUGHPUT_PER_LINK": 1529,
		"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 112, "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1603, "DCGM_FI_DEV_NVLINK_LINK_STATUS": 1508,
	} {
		if id, ok := FieldID(name); !ok || id != want {
			t.Errorf("FieldID(%s) = %d, %v", name, id, ok)
		}
	}
	for _, name := range []string{"", "0", "-1", "70000", "DCGM_FI_DEV_GPU_UTILL"} {
		if id, ok := FieldID(name); ok {
			t.Errorf("FieldID(%q) = %d", name, id)
		}
	}
	for id, want := range map[uint16]string{1085: "DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL", 203: "DCGM_FI_DEV_GPU_UTIL", 65000: "DCGM_FI_65000"} {
		if got := FieldName(id); got != want {
			t.Errorf("FieldName(%d) = %s", id, got)
		}
	}
	if len(table().ids) < 600 {
		t.Errorf("the field table has %d names", len(table().ids))
	}
}

// The defaults of dcgm-exporter 4.9.0: each is a field of 4.8.4's, by another name or in its base
// unit, but for the frame buffer's size and NVLink's throughput, which is not derived from the
// older field there (4.9.0's release notes, DCGM 4.7's list of fields).
func TestNamesOfDCGM47(t *testing.T) {
	for name, want := range map[string]struct {
		of       string
		from, to float64
	}{
		"DCGM_FI_DEV_SM_CLOCK_HERTZ":                     {"DCGM_FI_DEV_SM_CLOCK", 1980, 1.98e9},
		"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ":                 {"DCGM_FI_DEV_MEM_CLOCK", 2619, 2.619e9},
		"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL":            {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1700, 1.7},
		"DCGM_FI_DEV_GPU_UTIL_RATIO":                     {"DCGM_FI_DEV_GPU_UTIL", 57, .57},
		"DCGM_FI_DEV_MEMORY_UTIL_RATIO":                  {"DCGM_FI_DEV_MEM_COPY_UTIL", 7, .07},
		"DCGM_FI_DEV_ENC_UTIL_RATIO":                     {"DCGM_FI_DEV_ENC_UTIL", 0, 0},
		"DCGM_FI_DEV_DEC_UTIL_RATIO":                     {"DCGM_FI_DEV_DEC_UTIL", 100, 1},
		"DCGM_FI_DEV_FB_FREE_BYTES":                      {"DCGM_FI_DEV_FB_FREE", 3, 3 << 20},
		"DCGM_FI_DEV_FB_USED_BYTES":                      {"DCGM_FI_DEV_FB_USED", 3, 3 << 20},
		"DCGM_FI_DEV_FB_RESERVED_BYTES":                  {"DCGM_FI_DEV_FB_RESERVED", 3, 3 << 20},
		"DCGM_FI_DEV_FB_CAPACITY_BYTES":                  {"DCGM_FI_DEV_FB_TOTAL", 81559, 81559 << 20},
		"DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND": {"1648", 5, 5},
		"DCGM_FI_DEV_MEMORY_TEMP_CELSIUS":                {"DCGM_FI_DEV_MEMORY_TEMP", 5, 5},
		"DCGM_FI_DEV_GPU_TEMP_CELSIUS":                   {"DCGM_FI_DEV_GPU_TEMP", 5, 5},
		"DCGM_FI_DEV_BOARD_POWER_WATTS":                  {"DCGM_FI_DEV_POWER_USAGE", 5, 5},
		"DCGM_FI_DEV_PCIE_REPLAY_TOTAL":                  {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 5, 5},
		"DCGM_FI_DEV_XID_ERROR":                          {"DCGM_FI_DEV_XID_ERRORS", 79, 79},
		"DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL":      {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 5, 5},
		"DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL":        {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 5, 5},
		"DCGM_FI_DEV_ROW_REMAP_FAILED":                   {"DCGM_FI_DEV_ROW_REMAP_FAILURE", 1, 1},
		"DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO":              {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", .5, .5},
		"DCGM_FI_PROF_TENSOR_UTIL_RATIO":                 {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", .5, .5},
		"DCGM_FI_PROF_DRAM_UTIL_RATIO":                   {"DCGM_FI_PROF_DRAM_ACTIVE", .5, .5},
		"DCGM_FI_SYSTEM_DRIVER_VERSION":                  {"DCGM_FI_DRIVER_VERSION", 1, 1},
	} {
		f, err := NewField(name, "gauge", "x")
		if id, _ := FieldID(want.of); err != nil || f.Name != name || f.ID != id || f.Value(want.from) != want.to {
			t.Errorf("%s: %+v, %v; %v is served as %v", name, f, err, want.from, f.Value(want.from))
		}
	}
	// A number stands for the field of that number.
	if f, err := NewField("1613", "gauge", "x"); err != nil || f.Name != "DCGM_FI_DEV_GPU_UTIL_RATIO" || f.Value(40) != .4 {
		t.Errorf("1613: %+v, %v", f, err)
	}
}

var lane = regexp.MustCompile(`_L(?:ANE)?(\d+)(?:_|$)`)

// DCGM's numbers of the lanes have no order, so a mistake in the table would not be noticed: all names of one number
// are of the same lane.
func TestNamesOfANumberAgreeOnTheLane(t *testing.T) {
	first := map[uint16]string{}
	for name, id := range table().ids {
		of := "none"
		if m := lane.FindStringSubmatch(name); m != nil {
			of = m[1]
		}
		if other, met := first[id]; met && other != of {
			t.Errorf("field %d is called %s, and by a name of lane %s", id, name, other)
		}
		first[id] = of
	}
}

func FuzzCounters(f *testing.F) {
	f.Add(defaultText)
	f.Add("DCGM_FI_DEV_GPU_UTIL, gauge, \"a, b\"\n")
	f.Add("203, counter, x\n\"")
	f.Add("\uFEFF150, histogram, x\r\nDCGM_FI_DEV_GPU_TEMP, gauge, y\r\n")
	f.Add("DCGM_EXP_XID_ERRORS_COUNT, label, x\n\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse("f", strings.NewReader(text))
		fields := parsed.Fields
		if (err == nil) == (len(fields) == 0) {
			t.Fatalf("%d fields and error %v", len(fields), err)
		}
		seen := map[string]bool{}
		for _, field := range fields {
			if field.ID == 0 && field.Name != "DCGM_FI_UNKNOWN" || field.Name == "" || seen[field.Name] {
				t.Fatalf("field %+v", field)
			}
			seen[field.Name] = true
		}
		var mistake *Error
		if err != nil && errors.As(err, &mistake) && (mistake.Line < 1 || mistake.File != "f") {
			t.Fatalf("mistake without a place: %+v", mistake)
		}
	})
}
