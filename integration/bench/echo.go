package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/host"
)

// serveEcho is the smallest program between a watch and a handler. It reads the pods' frames line
// by line and passes each one unchanged to the handler process, over the same connection that
// informd uses. It has no cache, no rules and no queue. Its arguments are the server's URL, the
// resourceVersion to watch from, a run directory and the handler's socket.
func serveEcho(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("arguments %q", args)
	}
	url, from, runDir, socket := args[0], args[1], args[2], args[3]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := json.Marshal(handlerConfig{Socket: socket})
	if err != nil {
		return err
	}
	spec := host.Spec{
		Name: "echo", Path: self, Args: []string{"handler"},
		Config: config, Concurrency: concurrency,
	}
	h := host.New(spec, host.Options{RunDir: runDir})
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) }) // it never fails
	defer running.Wait()
	defer stop()
	return answerQuestions(os.Stdin, os.Stdout, func(q question) (answer, error) {
		switch q.Ask {
		case askReady:
			return answer{}, h.Ready(ctx)
		case askBegin:
			watch := url + "/api/v1/pods?watch=true&resourceVersion=" + from
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, watch, nil)
			if err != nil {
				return answer{}, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return answer{}, err
			}
			running.Go(func() {
				if err := echo(ctx, resp.Body, h); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "bench: echo:", err)
				}
			})
			return answer{}, nil
		}
		return answer{}, errors.New("not of an echo")
	})
}

// echo passes frames on until the stream ends, as many at once as the handler may have. It gives
// each frame the name of another object: the handler would otherwise get them one by one.
func echo(ctx context.Context, body io.ReadCloser, h *host.Host) error {
	defer body.Close()
	var handing sync.WaitGroup
	defer handing.Wait()
	room := make(chan struct{}, concurrency)
	frames := bufio.NewReaderSize(body, 64<<10)
	for n := 1; ; n++ {
		frame, err := frames.ReadBytes('\n')
		if err != nil {
			return err
		}
		room <- struct{}{}
		handing.Add(1)
		ev := &handler.Event{
			Rule: "echo", Name: strconv.Itoa(n), Event: handler.Updated, Attempt: 1, Object: frame,
		}
		h.Submit(ctx, ev, func(_ handler.Answer, err error) {
			if err != nil && ctx.Err() == nil {
				// The handler's count will lack this event.
				fmt.Fprintln(os.Stderr, "bench: echo:", err)
			}
			<-room
			handing.Done()
		})
	}
}
