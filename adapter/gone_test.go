package main

import (
	"errors"
	"fmt"
	"testing"
)

// The texts are those of k8s.io/apiserver v0.37.1 (responsewriters/writers.go) and of
// net/http's HTTP/2 server of Go 1.26.
func TestCallersThatHaveGoneAreNoErrors(t *testing.T) {
	for text, want := range map[string]bool{
		"apiserver was unable to write a JSON response: http2: stream closed":          true,
		"apiserver was unable to write a fallback JSON response: http2: stream closed": true,
		"apiserver was unable to write a JSON response: client disconnected":           true,
		"apiserver was unable to write a JSON response: no space left on device":       false,
		"http2: stream closed": false,
	} {
		err := errors.New(text)
		if gone(err) != want || gone(fmt.Errorf("%w", err)) != want {
			t.Errorf("%s: %t", text, gone(err))
		}
	}
	if gone(nil) {
		t.Error("no error is one")
	}
}
