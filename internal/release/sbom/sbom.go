package sbom

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Subject is the binary: build information lacks what -trimpath leaves out.
type Subject struct {
	Name, Version, Commit string
	SHA256                string // hexadecimal
	At                    time.Time
}

type document struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// CycloneDX returns the document, ending in a newline: the same for the same
// binary. There is no serial number, which would be another each time. A module
// that is replaced by a folder has no version to name and is an error.
func CycloneDX(info *debug.BuildInfo, s Subject) ([]byte, error) {
	main := component{
		Type: "application", Name: s.Name, Version: s.Version, PURL: purl(info.Main.Path, s.Version),
		Hashes: []hash{{"SHA-256", s.SHA256}},
	}
	// Several programs are of one module: the ref is the program's own.
	main.Ref = main.PURL + "#" + s.Name
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED"} {
		for _, setting := range info.Settings {
			if setting.Key == key {
				main.Properties = append(main.Properties, property{"build:" + key, setting.Value})
			}
		}
	}
	main.Properties = append(main.Properties, property{"build:commit", s.Commit})

	d := document{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Components: []component{stdlib(info.GoVersion)}}
	d.Metadata = metadata{Timestamp: s.At.UTC().Format(time.RFC3339), Component: main}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" || strings.HasPrefix(m.Version, "(") {
			return nil, fmt.Errorf("module %s has no version: it is replaced by a folder", m.Path)
		}
		p := purl(m.Path, m.Version)
		c := component{Ref: p, Type: "library", Name: m.Path, Version: m.Version, PURL: p}
		if m.Sum != "" {
			c.Properties = []property{{"go.sum", m.Sum}}
		}
		d.Components = append(d.Components, c)
	}
	slices.SortFunc(d.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	uses := dependency{Ref: main.Ref}
	for _, c := range d.Components {
		uses.DependsOn = append(uses.DependsOn, c.Ref)
	}
	// Which module needs which is not in a binary: all are put below the program.
	d.Dependencies = []dependency{uses}
	data, err := json.MarshalIndent(d, "", "  ")
	return append(data, '\n'), err
}

// stdlib is a component of its own: its vulnerabilities are the most frequent ones.
func stdlib(goVersion string) component {
	version, _, _ := strings.Cut(strings.TrimPrefix(goVersion, "go"), " ")
	p := purl("std", version)
	return component{Ref: p, Type: "library", Name: "std", Version: version, PURL: p}
}

// purl keeps the case of the path, against the letter of the purl spec:
// vulnerability databases name Go modules as they are written.
func purl(path, version string) string {
	p := "pkg:golang/" + path
	if version != "" {
		p += "@" + strings.ReplaceAll(version, "+", "%2B")
	}
	return p
}
