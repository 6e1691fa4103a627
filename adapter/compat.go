package main

import "github.com/gpuscale/gpuscale/adapter/compat"

// checkFile is --check for the file: all its problems at once.
func checkFile(o compat.Options) error {
	if !o.Enabled() {
		return nil
	}
	f, err := o.Load()
	if err != nil {
		return err
	}
	return f.Err()
}
