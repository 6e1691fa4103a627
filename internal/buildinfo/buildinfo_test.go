package buildinfo

import (
	"bytes"
	"runtime/debug"
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
