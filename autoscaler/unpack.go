package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// unpacked returns the content of r, decompressed if it is gzip, without a byte order
// mark.
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
		_, _ = b.Discard(len(mark)) // Peek has buffered them
	}
	return b, nil
}

// readText reads a text of at most maxSnapshot.
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
		return "", fmt.Errorf("more than %d MiB: not a snapshot", maxSnapshot>>20)
	}
	return string(text), nil
}
