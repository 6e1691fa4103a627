package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profileEach is how long one profile takes: a burst's end is not known when it
// begins, and an answer that is broken off holds nothing.
const profileEach = 10 * time.Second

// profile writes the program's processor profiles until ctx ends, one after another;
// the channel is closed when the last is written. Without a folder it does nothing.
func (l *lab) profile(ctx context.Context, name string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; l.o.profiles != "" && ctx.Err() == nil; n++ {
			file := filepath.Join(l.o.profiles, fmt.Sprintf("%s-%03d.pb.gz", name, n))
			if err := l.profileTo(context.WithoutCancel(ctx), file); err != nil {
				fmt.Fprintln(os.Stderr, "bench: no profile:", err)
				return
			}
		}
	}()
	return done
}

func (l *lab) profileTo(ctx context.Context, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, profileEach+10*time.Second)
	defer cancel()
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", l.address, int(profileEach.Seconds()))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	_, err = io.Copy(f, answer.Body)
	return err
}
