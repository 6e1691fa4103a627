package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/report/doctor"
)

// The committed page is what the checks say, byte by byte.
func TestDoctorPage(t *testing.T) {
	page := doctorPage(doctor.All())
	have, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page {
		t.Error("docs/doctor.md is out of date: make generate")
	}
	for _, c := range doctor.All() {
		if strings.Count(page, "| `"+c.ID+"` |") != 1 {
			t.Errorf("%s is not there once", c.ID)
		}
	}
}
