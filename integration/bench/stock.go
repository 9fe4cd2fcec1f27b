package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/integration/bench/fleet"
)

// serveStock runs client-go's unmodified dynamicinformer, with its index by namespace and a handler
// that only counts. Its arguments are the server's URL or a kubeconfig, a mode, and the resources.
// The modes are:
//
//	whole  nothing
//	strip  a transform cuts out managedFields
//	timed  notes when each update comes
//	fork   runs a process for each update, one after the other, with the event on its standard input
func serveStock(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("arguments %q", args)
	}
	url, beside, watched := args[0], args[1], args[2:]
	cfg := &rest.Config{Host: url}
	if !strings.Contains(url, "://") {
		var err error
		if cfg, err = clientcmd.BuildConfigFromFlags("", url); err != nil {
			return err
		}
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	var objects, updates counter
	var came arrivals
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	var informers []cache.SharedIndexInformer
	for _, res := range resources {
		if !slices.Contains(watched, res.gvr.Resource) {
			continue
		}
		informer := factory.ForResource(res.gvr).Informer()
		if beside == "strip" {
			if err := informer.SetTransform(strip); err != nil {
				return err
			}
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { objects.add(o.(*unstructured.Unstructured).GetResourceVersion()) },
			UpdateFunc: func(_, o any) {
				u := o.(*unstructured.Unstructured)
				if beside == "fork" {
					if err := fork(ctx, u); err != nil {
						// The count will lack this update.
						fmt.Fprintln(os.Stderr, "bench: fork:", err)
						return
					}
				}
				if beside == "timed" {
					sent := u.GetAnnotations()[fleet.SentAnnotation]
					if n, err := strconv.ParseInt(sent, 10, 64); err == nil {
						came.add(n)
					}
				}
				updates.add(u.GetResourceVersion())
			},
		})
		if err != nil {
			return err
		}
		informers = append(informers, informer)
	}
	return answerQuestions(os.Stdin, os.Stdout, func(q question) (a answer, err error) {
		switch q.Ask {
		case askReady:
		case askBegin:
			factory.Start(ctx.Done())
		case askSeen:
			a.Seen = seen{Objects: objects.tally(), Updates: updates.tally()}
		case askCache:
			var cached counter
			for _, informer := range informers {
				for _, o := range informer.GetStore().List() {
					cached.add(o.(*unstructured.Unstructured).GetResourceVersion())
				}
			}
			a.Cache = cached.tally()
		case askHeap:
			a.Heap = heap()
		case askArrivals:
			a.Arrivals = came.take()
		default:
			err = fmt.Errorf("not of a stock informer")
		}
		return a, err
	})
}

// strip is the customary transform.
func strip(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return o, nil
}

// fork runs a process that reads the event, like a hook of shell-operator.
func fork(ctx context.Context, u *unstructured.Unstructured) error {
	event, err := json.Marshal([]any{map[string]any{
		"binding": "bench", "type": "Event", "watchEvent": "Modified", "object": u.Object,
	}})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", "cat >/dev/null")
	cmd.Stdin = bytes.NewReader(event)
	return cmd.Run()
}
