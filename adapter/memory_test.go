package main

import (
	"testing"
	"testing/fstest"
)

func TestCollector(t *testing.T) {
	const v2, v1 = "memory.max", "memory/memory.limit_in_bytes"
	for _, c := range []struct {
		name    string
		env     map[string]string
		files   map[string]string
		percent int
		limit   int64
	}{
		{"no container", nil, nil, garbagePercent, -1},
		{"version 2", nil, map[string]string{v2: "300000000\n"}, garbagePercent, 270_000_000},
		{"version 2 without a limit", nil, map[string]string{v2: "max\n"}, garbagePercent, -1},
		{"version 1", nil, map[string]string{v1: "300000000\n"}, garbagePercent, 270_000_000},
		{"version 1 without a limit", nil, map[string]string{v1: "9223372036854771712\n"}, garbagePercent, -1},
		{"the user's limit", map[string]string{"GOMEMLIMIT": "1GiB"}, map[string]string{v2: "300000000\n"}, garbagePercent, -1},
		{"the user's percentage", map[string]string{"GOGC": "100"}, map[string]string{v2: "300000000\n"}, -1, 270_000_000},
		{"nonsense", nil, map[string]string{v2: "-5 lots"}, garbagePercent, -1},
	} {
		groups := fstest.MapFS{}
		for name, text := range c.files {
			groups[name] = &fstest.MapFile{Data: []byte(text)}
		}
		percent, limit := collector(func(name string) string { return c.env[name] }, groups)
		if percent != c.percent || limit != c.limit {
			t.Errorf("%s: %d %%, %d bytes; want %d %%, %d", c.name, percent, limit, c.percent, c.limit)
		}
	}
}
