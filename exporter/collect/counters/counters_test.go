package counters

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaults(t *testing.T) {
	fields, err := Default()
	if err != nil {
		t.Fatal(err)
	}
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

// Each bad file says in its first line what the error must contain.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fields, err := Parse(filepath.Base(file), strings.NewReader(string(text)))
			if strings.HasPrefix(filepath.Base(file), "good") {
				if err != nil || len(fields) == 0 {
					t.Fatalf("%d fields, %v", len(fields), err)
				}
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

func TestFieldNamesAndNumbers(t *testing.T) {
	for name, want := range map[string]uint16{
		"DCGM_FI_DEV_GPU_UTIL": 203, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1001, "dcgm_gpu_utilization": 203, "1098": 1098,
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
	if got := FieldName(203); got != "DCGM_FI_DEV_GPU_UTIL" {
		t.Errorf("FieldName(203) = %s", got)
	}
	if got := FieldName(65000); got != "DCGM_FI_65000" {
		t.Errorf("FieldName(65000) = %s", got)
	}
	if len(table().ids) < 600 {
		t.Errorf("the field table has %d names", len(table().ids))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(defaultText)
	f.Add("DCGM_FI_DEV_GPU_UTIL, gauge, \"a, b\"\n")
	f.Add("203, counter, x\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := Parse("f", strings.NewReader(text))
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
