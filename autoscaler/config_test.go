package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/plan"
)

func TestGoodConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no good files: %v", err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

// TestBadConfigs: the error of a bad file has the texts of its lines "# want ".
func TestBadConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, file := range files {
		_, err := Load(file)
		if err == nil {
			t.Errorf("%s was accepted", file)
			continue
		}
		text, readErr := os.ReadFile(file)
		if readErr != nil {
			t.Fatal(readErr)
		}
		wants := 0
		for _, line := range strings.Split(string(text), "\n") {
			want, ok := strings.CutPrefix(line, "# want ")
			if !ok {
				continue
			}
			wants++
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in\n%v", file, want, err)
			}
		}
		if wants == 0 {
			t.Errorf("%s has no line \"# want \"", file)
		}
	}
}

func TestDefaultPolicyIsThePlanners(t *testing.T) {
	if got := Default().Policy.Plan(); got != plan.DefaultPolicy() {
		t.Errorf("got %+v, want %+v", got, plan.DefaultPolicy())
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// TestPolicyThereAndBack: every field of plan.Policy has one in the file.
func TestPolicyThereAndBack(t *testing.T) {
	full, err := Load("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := full.Policy.Plan()
	if back := policyConfig(got); back != full.Policy {
		t.Errorf("there and back: %+v, want %+v", back, full.Policy)
	}
	var p plan.Policy
	v := reflect.ValueOf(&p).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Float64:
			f.SetFloat(float64(i) + 0.5)
		case reflect.String:
			f.SetString("low")
		default:
			t.Fatalf("%s: a %s", v.Type().Field(i).Name, f.Kind())
		}
	}
	if back := policyConfig(p).Plan(); back != p {
		t.Errorf("lost on the way: %+v, want %+v", back, p)
	}
}

// TestEveryPolicyFieldIsChecked: every number and duration has bounds.
func TestEveryPolicyFieldIsChecked(t *testing.T) {
	c := reflect.TypeFor[PolicyConfig]()
	for i := range c.NumField() {
		f := c.Field(i)
		switch bad := reflect.New(c).Elem(); f.Type.Kind() {
		case reflect.Bool, reflect.String:
		default:
			if f.Type.Kind() == reflect.Int {
				below := int64(-1)
				if f.Tag.Get("want") == "priority" { // negative ones exist
					below = math.MinInt64
				}
				bad.Field(i).SetInt(below)
			} else if f.Type.Kind() == reflect.Float64 {
				bad.Field(i).SetFloat(-1)
			} else {
				bad.Field(i).Field(0).SetInt(-1)
			}
			var p problems
			bad.Interface().(PolicyConfig).validate(&p)
			if err := errors.Join(p...); err == nil || !strings.Contains(err.Error(), "policy."+f.Tag.Get("json")+": ") {
				t.Errorf("%s below zero is accepted: %v", f.Name, err)
			}
		}
	}
	full, err := Load("testdata/good/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	full.Policy.MaxSickShare = 1.5
	if err := full.Validate(); err == nil || !strings.Contains(err.Error(), "policy.maxSickShare: 1.5: want a share from 0 to 1") {
		t.Errorf("a share above 1: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		files, _ := filepath.Glob("testdata/" + dir + "/*.yaml")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		if c, err := Parse(text); err == nil {
			_ = c.Validate()
		}
	})
}

func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand(&out, &errs)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}
