package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// unpacked is what r says, unpacked where it is gzip, as files of a report mostly
// are. A mark of the byte order in front is no part of it.
func unpacked(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReader(unzipped)
	}
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = b.Discard(len(mark)) // they have been seen
	}
	return b, nil
}

// readText reads a snapshot, within bounds.
func readText(r io.Reader) (string, error) {
	plain, err := unpacked(r)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(plain, maxSnapshot+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxSnapshot {
		return "", fmt.Errorf("more than %d MiB: that is no snapshot", maxSnapshot>>20)
	}
	return string(text), nil
}
