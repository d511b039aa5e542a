/* SPDX-License-Identifier: Apache-2.0 */
// Two processes move pinned memory of berth by UCX: by messages, and by writes of one into memory
// of the other. Both register each block, and unregister it before they free it; between rounds
// they return all memory, so that UCX must not keep what it knew of the addresses. The parent
// sends, its child receives and checks.
#include <berth/berth.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { kRounds = 4, kTag = 7 };
static const size_t kSizes[] = {1, 4096, 100000, 8 << 20};

#define REQUIRE(condition)                                               \
  do {                                                                   \
    if (!(condition)) {                                                  \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
              berth_last_error_message());                               \
      exit(1);                                                           \
    }                                                                    \
  } while (false)
#define BERTH(call) REQUIRE((call) == BERTH_OK)
#define UCX(call) REQUIRE((call) == UCS_OK)

typedef struct {
  int socket;  // to the other process, for what UCX leaves to its users
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_ep_h other;
  berth_runtime* runtime;
  berth_allocator* pinned;
} process;

typedef struct {
  unsigned char* data;
  size_t bytes;
  ucp_mem_h registration;
} block;

static void send_bytes(process* self, const void* content, size_t bytes) {
  REQUIRE(send(self->socket, &bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
  REQUIRE(send(self->socket, content, bytes, 0) == (ssize_t)bytes);
}

/// To be freed. Meanwhile, transfers of the other process go on, which may need this one.
static void* receive_bytes(process* self) {
  size_t bytes;
  while (recv(self->socket, &bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT) == -1)
    ucp_worker_progress(self->worker);
  REQUIRE(recv(self->socket, &bytes, sizeof bytes, MSG_WAITALL) == (ssize_t)sizeof bytes);
  void* content = malloc(bytes);
  REQUIRE(content != NULL && recv(self->socket, content, bytes, MSG_WAITALL) == (ssize_t)bytes);
  return content;
}

static void await(process* self, ucs_status_ptr_t request) {
  if (request == NULL) return;
  REQUIRE(!UCS_PTR_IS_ERR(request));
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(self->worker);
  UCX(ucp_request_check_status(request));
  ucp_request_free(request);
}

static void start(process* self, int socket) {
  self->socket = socket;
  BERTH(berth_runtime_create(NULL, &self->runtime));
  BERTH(berth_allocator_get_pinned(self->runtime, &self->pinned));
  const ucp_params_t wanted = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
  ucp_config_t* config;
  UCX(ucp_config_read(NULL, NULL, &config));
  UCX(ucp_init(&wanted, config, &self->context));
  ucp_config_release(config);
  const ucp_worker_params_t one_thread = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                          .thread_mode = UCS_THREAD_MODE_SINGLE};
  UCX(ucp_worker_create(self->context, &one_thread, &self->worker));
  ucp_address_t* own;
  size_t bytes;
  UCX(ucp_worker_get_address(self->worker, &own, &bytes));
  send_bytes(self, own, bytes);
  ucp_worker_release_address(self->worker, own);
  ucp_address_t* const address = receive_bytes(self);
  const ucp_ep_params_t other = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                 .address = address};
  UCX(ucp_ep_create(self->worker, &other, &self->other));
  free(address);
}

static void end(process* self) {
  const ucp_request_param_t none = {.op_attr_mask = 0};
  await(self, ucp_ep_close_nbx(self->other, &none));
  // The other process needs this one until it has closed its end, too.
  send_bytes(self, "closed", sizeof "closed");
  free(receive_bytes(self));
  ucp_worker_destroy(self->worker);
  ucp_cleanup(self->context);
  berth_runtime_destroy(self->runtime);
}

static block allocate(process* self, size_t bytes) {
  void* data;
  BERTH(berth_allocator_allocate_pinned(self->pinned, bytes, &data));
  block made = {.data = data, .bytes = bytes};
  const ucp_mem_map_params_t range = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
      .address = data,
      .length = bytes};
  UCX(ucp_mem_map(self->context, &range, &made.registration));
  return made;
}

static void deallocate(process* self, const block* used) {
  UCX(ucp_mem_unmap(self->context, used->registration));
  BERTH(berth_allocator_deallocate(self->pinned, used->data));
}

static unsigned char pattern(size_t at, int round) {
  return (unsigned char)(at * 31 + at / 4096 + (size_t)round * 101);
}

static void send_block(process* self, size_t bytes, int round) {
  const block sent = allocate(self, bytes);
  for (size_t at = 0; at < bytes; ++at) sent.data[at] = pattern(at, round);
  const ucp_request_param_t registered = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                          .memh = sent.registration};
  await(self, ucp_tag_send_nbx(self->other, sent.data, bytes, kTag, &registered));

  void* const place = receive_bytes(self);
  void* const key = receive_bytes(self);
  ucp_rkey_h access;
  UCX(ucp_ep_rkey_unpack(self->other, key, &access));
  for (size_t at = 0; at < bytes; ++at) sent.data[at] = pattern(at, round + 1);
  uint64_t address;
  memcpy(&address, place, sizeof address);
  await(self, ucp_put_nbx(self->other, sent.data, bytes, address, access, &registered));
  const ucp_request_param_t none = {.op_attr_mask = 0};
  await(self, ucp_ep_flush_nbx(self->other, &none));
  ucp_rkey_destroy(access);
  send_bytes(self, "written", sizeof "written");
  free(receive_bytes(self));
  free(place);
  free(key);
  deallocate(self, &sent);
}

static void check(const block* received, int round) {
  for (size_t at = 0; at < received->bytes; ++at) REQUIRE(received->data[at] == pattern(at, round));
}

static void receive_block(process* self, size_t bytes, int round) {
  const block received = allocate(self, bytes);
  const ucp_request_param_t registered = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                          .memh = received.registration};
  await(self,
        ucp_tag_recv_nbx(self->worker, received.data, bytes, kTag, ~(ucp_tag_t)0, &registered));
  check(&received, round);

  const uint64_t address = (uint64_t)(uintptr_t)received.data;
  send_bytes(self, &address, sizeof address);
  void* key;
  size_t key_bytes;
  UCX(ucp_rkey_pack(self->context, received.registration, &key, &key_bytes));
  send_bytes(self, key, key_bytes);
  ucp_rkey_buffer_release(key);
  free(receive_bytes(self));
  check(&received, round + 1);
  send_bytes(self, "checked", sizeof "checked");
  deallocate(self, &received);
}

static void run(int socket, void (*move)(process*, size_t, int)) {
  process self;
  start(&self, socket);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) move(&self, kSizes[i], round);
    size_t released;
    BERTH(berth_allocator_trim(self.pinned, 0, &released));
    REQUIRE(released != 0);
  }
  end(&self);
}

int main(void) {
  int sockets[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  close(sockets[child == 0 ? 0 : 1]);
  if (child == 0) {
    run(sockets[1], &receive_block);
    return 0;
  }
  run(sockets[0], &send_block);
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0);
  puts("all bytes arrived");
  return 0;
}
