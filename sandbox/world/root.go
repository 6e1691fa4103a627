package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// FindRoot walks up from the working directory to the checkout's go.mod.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the gpuscale checkout: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/gpuscale/gpuscale\n") {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("the sandbox builds from the gpuscale sources: run it from inside a checkout")
		}
		dir = filepath.Dir(dir)
	}
}
