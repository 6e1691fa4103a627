package buildinfo

import (
	"bytes"
	"encoding/json"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDevelVersion(t *testing.T) {
	const hash = "1a2b3c4d5e6f7a8b9c0d"
	for _, c := range []struct {
		name     string
		settings []debug.BuildSetting
		want     string
	}{
		{"nothing recorded", nil, "devel"},
		{"clean", []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: "false"}}, "devel+1a2b3c4d5e6f"},
		{"changed", []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: "true"}}, "devel+1a2b3c4d5e6f-dirty"},
		{"a hash too short to be one", []debug.BuildSetting{{Key: "vcs.revision", Value: "1a2b"}}, "devel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := develVersion(c.settings); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWriteText(t *testing.T) {
	var out bytes.Buffer
	if err := (Info{"gpuscale-x", "0.1.0", "abc", "go1.26.8", "linux/arm64"}).Write(&out, "text"); err != nil {
		t.Fatal(err)
	}
	const want = "gpuscale-x 0.1.0\n  commit    abc\n  go        go1.26.8\n  platform  linux/arm64\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestWriteJSON(t *testing.T) {
	var out bytes.Buffer
	if err := Get("gpuscale-x").Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"program": "gpuscale-x", "version": Version(), "commit": Commit(),
		"goVersion": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWriteUnknownFormat(t *testing.T) {
	err := Get("gpuscale-x").Write(&bytes.Buffer{}, "yaml")
	if err == nil || !strings.Contains(err.Error(), "text or json") {
		t.Errorf("got %v", err)
	}
}
