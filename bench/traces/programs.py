# SPDX-License-Identifier: Apache-2.0
"""The PyTorch programs whose allocations record.py writes down.

Each program is a real architecture built by torchvision or transformers with
random weights, so nothing is downloaded. The sizes are chosen so that a machine
without a GPU runs each in a minute or two while the live memory still reaches
hundreds of MiB. `run` builds everything itself, because the weights belong to
the trace, and returns what must stay alive until the recording has ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

# Called after each iteration; adds a `snapshot` row to the trace.
Mark = Callable[[], None]

# Attention written out as matrix products and a softmax: the fused kernels of
# the CPU backend request scratch memory per head that no GPU kernel requests.
ATTENTION = {"attn_implementation": "eager"}


@dataclass(frozen=True)
class Program:
    """One recordable program and its description in the trace's header."""

    description: str
    iteration: str  # what lies between two markers
    run: Callable[[torch.device, Mark], object]


def resnet50_train(device: torch.device, mark: Mark) -> object:
    """Short epoch: full batches, the smaller last one, then a validation pass."""
    import torchvision

    with device:
        model = torchvision.models.resnet50(num_classes=1000)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=True
    )
    loss_of = torch.nn.CrossEntropyLoss()
    for batch in (16, 16, 16, 16, 11):
        images = torch.randn(batch, 3, 224, 224, device=device)
        labels = torch.randint(1000, (batch,), device=device)
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        mark()
    model.eval()
    with torch.no_grad():
        for batch in (32, 18):
            images = torch.randn(batch, 3, 224, 224, device=device)
            labels = torch.randint(1000, (batch,), device=device)
            correct = (model(images).argmax(dim=1) == labels).sum().item()
            assert 0 <= correct <= batch
            mark()
    return model, optimizer


def gpt2_train(device: torch.device, mark: Mark) -> object:
    """Pre-training steps that all request the same sizes once AdamW has its state."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with device:
        model = GPT2LMHeadModel._from_config(GPT2Config(), **ATTENTION)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    for _ in range(6):
        tokens = torch.randint(model.config.vocab_size, (2, 384), device=device)
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        # Otherwise the graph's last tensors would live on into the next step.
        del tokens, loss
        mark()
    return model, optimizer


def llama_generate(device: torch.device, mark: Mark) -> object:
    """Requests of different lengths, each a prefill and a greedy decode."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632,
        num_hidden_layers=6, num_attention_heads=16, num_key_value_heads=4,
        max_position_embeddings=4096, dtype="bfloat16",
    )  # fmt: skip
    with device:
        model = LlamaForCausalLM._from_config(config, **ATTENTION)
    model.eval()
    chooser = random.Random(7)
    for _ in range(10):
        batch = chooser.choice((1, 1, 2, 4))
        prompt_tokens = int(2 ** chooser.uniform(5, 10.5))
        new_tokens = chooser.randint(3, 12)
        prompt = torch.randint(3, 32000, (batch, prompt_tokens), device=device)
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            do_sample=False,
            pad_token_id=0,
        )
        mark()
    return model


def mixtral_train(device: torch.device, mark: Mark) -> object:
    """Training steps in which the tokens determine the share of each expert."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=16000, hidden_size=512, intermediate_size=1024,
        num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
        num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=1024,
        output_router_logits=True,
        # One matrix product per expert: its operands are as long as the
        # expert's share of the tokens. Grouped products would hide that.
        experts_implementation="eager",
    )  # fmt: skip
    with device:
        model = MixtralForCausalLM._from_config(config, **ATTENTION)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    for _ in range(5):
        tokens = torch.randint(config.vocab_size, (4, 256), device=device)
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        del tokens, loss
        mark()
    return model, optimizer


def vit_finetune(device: torch.device, mark: Mark) -> object:
    """Mixed precision, recomputed activations and accumulated gradients."""
    from transformers import ViTConfig, ViTForImageClassification

    with device:
        model = ViTForImageClassification._from_config(ViTConfig(num_labels=100), **ATTENTION)
    model.train()
    model.activation_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, foreach=True)
    for _ in range(3):
        for _ in range(2):
            images = torch.randn(16, 3, 224, 224, device=device)
            labels = torch.randint(100, (16,), device=device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = model(pixel_values=images, labels=labels).loss / 2
            loss.backward()
            del images, labels, loss
        optimizer.step()
        optimizer.zero_grad()
        mark()
    return model, optimizer


def detect_train(device: torch.device, mark: Mark) -> object:
    """Detector training on photographs of different sizes and object counts."""
    import torchvision

    with device:
        model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=21,
            min_size=(256, 320, 384), max_size=640,
        )  # fmt: skip
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, foreach=True)
    chooser = random.Random(11)
    for _ in range(6):
        images, targets = [], []
        for _ in range(2):
            height_px, width_px = chooser.randint(240, 640), chooser.randint(240, 640)
            images.append(torch.rand(3, height_px, width_px, device=device))
            corners = torch.rand(chooser.randint(1, 12), 2, device=device) * 150
            boxes = torch.cat((corners, corners + 60), dim=1)
            labels = torch.randint(1, 21, (len(boxes),), device=device)
            targets.append({"boxes": boxes, "labels": labels})
        optimizer.zero_grad()
        loss = sum(model(images, targets).values())
        loss.backward()
        optimizer.step()
        mark()
    return model, optimizer


PROGRAMS = {
    "resnet50-train": Program(
        "torchvision resnet50, 224x224 images; training batches 16, 16, 16, 16, 11, "
        "SGD with momentum; validation batches 32, 18 without gradients",
        "batch",
        resnet50_train,
    ),
    "gpt2-train": Program(
        "transformers GPT-2 (12 layers, width 768, 124M parameters), batch 2 of 384 "
        "tokens, dropout, gradient clipping, AdamW; 6 equal training steps",
        "training step",
        gpt2_train,
    ),
    "llama-generate": Program(
        "transformers Llama (6 layers, width 2048, 16 heads, 4 key-value heads, "
        "bfloat16); 10 greedy generations, batch 1 to 4, prompts of 36 to 1322 tokens, "
        "3 to 12 new tokens, growing key-value cache",
        "generation",
        llama_generate,
    ),
    "mixtral-train": Program(
        "transformers Mixtral (4 layers, width 512, 8 experts, 2 per token), batch 4 "
        "of 256 tokens, AdamW; 5 training steps with data-dependent expert loads",
        "training step",
        mixtral_train,
    ),
    "vit-finetune": Program(
        "transformers ViT-Base, 224x224 images, bfloat16 autocast, recomputed "
        "activations, AdamW; 3 training steps of 2 accumulated batches of 16",
        "training step",
        vit_finetune,
    ),
    "detect-train": Program(
        "torchvision Faster R-CNN with resnet50 and FPN, SGD with momentum; 6 training "
        "steps of 2 images of random size with 1 to 12 boxes each",
        "training step",
        detect_train,
    ),
}
