//go:build linux

package host_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/informd/informd/plugins/handlerpb"
)

func init() { addModes(bareModes) }

// bareModes are rogues without go-plugin, which would prevent what they do.
var bareModes = map[string]func(){
	"broker": func() { // announces connections without end, each of which go-plugin's client waits for
		serveBare(func(s *grpc.Server) {
			s.RegisterService(&grpc.ServiceDesc{ServiceName: "plugin.GRPCBroker", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
				StreamName: "StartStream", ServerStreams: true, ClientStreams: true,
				Handler: func(_ any, stream grpc.ServerStream) error {
					for n := uint32(1); ; n++ {
						if err := stream.SendMsg(wrapperspb.UInt32(n)); err != nil { // the number is ConnInfo's service_id
							return err
						}
					}
				},
			}}}, nil)
			handlerpb.RegisterHandlerServer(s, &raw{})
		})
	},
	"stdio": func() { // sends its output in large pieces, by go-plugin's way
		piece := status.New(1, strings.Repeat(strings.Repeat("z", 1000)+"\n", 4<<10)).Proto() // reads as StdioData: the channel, and the data
		serveBare(func(s *grpc.Server) {
			s.RegisterService(&grpc.ServiceDesc{ServiceName: "plugin.GRPCStdio", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
				StreamName: "StreamStdio", ServerStreams: true,
				Handler: func(_ any, stream grpc.ServerStream) error {
					for {
						if err := stream.SendMsg(piece); err != nil {
							return err
						}
					}
				},
			}}}, nil)
			handlerpb.RegisterHandlerServer(s, &raw{})
		})
	},
	"impostor": func() { // has the daemon speak to another handler in its place
		if err := os.Symlink(os.Getenv("VICTIM"), socket()); err != nil {
			panic(err)
		}
		shake("1|1|unix|" + socket() + "|grpc|")
	},
	"accomplice": func() { // has somebody whom the daemon does not end hold the connection, in the same way
		if err := os.Link(os.Getenv("VICTIM"), socket()); err != nil {
			panic(err)
		}
		shake("1|1|unix|" + socket() + "|grpc|")
	},
	"inflates": func() { // answers with as many messages or texts as there is room for, all empty
		serveBare(func(s *grpc.Server) { handlerpb.RegisterHandlerServer(s, &inflating{call: os.Getenv("CALL")}) })
	},
	"trailers": func() { // says how it ended at great length
		serveBare(func(s *grpc.Server) { handlerpb.RegisterHandlerServer(s, &trailing{}) })
	},
	"pings": func() { // takes the connection, and pings without end instead of answering
		l := listen()
		conn, err := l.Accept()
		if err != nil {
			panic(err)
		}
		_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
		var many []byte
		for range 4096 {
			many = append(many, 0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8) // PING
		}
		for {
			if _, err := conn.Write(many); err != nil {
				return
			}
		}
	},
}

// inflating answers a call with messages that are small on the wire and large in memory.
type inflating struct {
	raw
	call string
}

func (i *inflating) Describe(context.Context, *handlerpb.DescribeRequest) (*handlerpb.DescribeResponse, error) {
	r := &handlerpb.DescribeResponse{}
	if i.call == "describe" {
		inflate(r, 6)
	}
	return r, nil
}

func (i *inflating) Configure(context.Context, *handlerpb.ConfigureRequest) (*handlerpb.ConfigureResponse, error) {
	r := &handlerpb.ConfigureResponse{}
	if i.call == "configure" {
		inflate(r, 1)
	}
	return r, nil
}

// inflate adds as many empty elements of a field to m as a message may have.
func inflate(m proto.Message, field byte) {
	m.ProtoReflect().SetUnknown(bytes.Repeat([]byte{field<<3 | 2, 0}, handlerpb.MaxResponseBytes/2))
}

// trailing ends its stream of deliveries with the largest trailers that HTTP/2 allows.
type trailing struct{ raw }

func (*trailing) Deliver(stream handlerpb.Handler_DeliverServer) error {
	md := metadata.MD{}
	for i := range 10 {
		md.Set(fmt.Sprintf("reason-%d", i), strings.Repeat("x", 100<<10))
	}
	stream.SetTrailer(md)
	return fmt.Errorf("%s", strings.Repeat("y", 300<<10))
}

// serveBare serves without go-plugin.
func serveBare(register func(*grpc.Server)) {
	l := listen()
	s := grpc.NewServer(grpc.MaxRecvMsgSize(handlerpb.MaxRequestBytes))
	register(s)
	_ = s.Serve(l)
}

// listen makes the socket and shakes hands.
func listen() net.Listener {
	l, err := net.Listen("unix", socket())
	if err != nil {
		panic(err)
	}
	fmt.Printf("1|1|unix|%s|grpc|\n", socket())
	return l
}
