package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// serveClientGo is the contestant's process: a stock informer whose handler only counts. For each line on standard
// input it prints whether it is synced, and the counts. It ends with its standard input.
func serveClientGo(ctx context.Context, kubeconfig, namespace string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informer := factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Informer()
	var added, updated atomic.Int64
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(_, _ any) { updated.Add(1) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for questions := bufio.NewScanner(os.Stdin); questions.Scan(); {
		fmt.Println(registration.HasSynced(), added.Load(), updated.Load())
	}
	return nil
}

// clientGo is the parent's side of it.
type clientGo struct {
	cmd     *exec.Cmd
	ask     io.WriteCloser
	answers io.Reader
}

func startClientGo(ctx context.Context, kubeconfig, namespace string) (*clientGo, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &clientGo{cmd: exec.CommandContext(ctx, self, "-client-go", kubeconfig, namespace)}
	c.cmd.Stderr = os.Stderr
	if c.ask, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.answers, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

func (c *clientGo) pid() int { return c.cmd.Process.Pid }

func (c *clientGo) seen(context.Context) (objects, updates int, ok bool, err error) {
	if _, err = fmt.Fprintln(c.ask); err == nil {
		_, err = fmt.Fscanln(c.answers, &ok, &objects, &updates)
	}
	return objects, updates, ok, err
}

func (c *clientGo) stop() error {
	_ = c.ask.Close() // it has ended if this fails, and Wait says how
	return c.cmd.Wait()
}
