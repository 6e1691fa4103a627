package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the state of the tree that is released.
type source struct {
	dir    string
	commit string
	at     time.Time // of the commit, or SOURCE_DATE_EPOCH: the time of everything packed
}

var semver = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)

func parseVersion(v string) (string, error) {
	m := semver.FindStringSubmatch(v)
	if m == nil {
		return "", fmt.Errorf("-version %q: want one like 0.1.0 or 0.1.0-rc.1", v)
	}
	return m[1], nil
}

// readSource asks git. A tree with changes is released only as a snapshot:
// nobody could make it again from its commit.
func readSource(dir string, snapshot bool) (source, error) {
	commit, err := git(dir, "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	changed, err := git(dir, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	if changed != "" && !snapshot {
		first, _, _ := strings.Cut(changed, "\n")
		return source{}, fmt.Errorf("the tree is not what commit %.12s says (%s): commit, or make a snapshot", commit, strings.TrimSpace(first))
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		if seconds, err = git(dir, "log", "-1", "--format=%ct"); err != nil {
			return source{}, err
		}
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("SOURCE_DATE_EPOCH=%q: want seconds", seconds)
	}
	return source{dir: dir, commit: commit, at: time.Unix(at, 0).UTC()}, nil
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return strings.TrimSpace(string(out)), nil
}
