"""Small models of all kinds, each a module with factory, example_inputs, loss and data: see `MODELS`.

`python -m stagecraft.torch profile models:unet -o unet.json --inputs models:unet_inputs`.
"""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

CLASSES, TOKENS, WORDS = 7, 12, 31


def generator(seed):
    return torch.Generator().manual_seed(seed)


class Unet(nn.Module):
    """Long skips, as in Ronneberger et al. 2015."""

    def __init__(self, width=4, depth=3):
        super().__init__()
        sizes = [width * 2**level for level in range(depth)]
        self.down = nn.ModuleList(self.block(a, b) for a, b in zip([3, *sizes], sizes))
        self.middle = self.block(sizes[-1], 2 * sizes[-1])
        self.up = nn.ModuleList(self.block(3 * size, size) for size in reversed(sizes))
        self.head = nn.Conv2d(width, CLASSES, 1)

    @staticmethod
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(1, b), nn.ReLU(inplace=True),
                             nn.Conv2d(b, b, 3, padding=1), nn.ReLU(inplace=True))

    def forward(self, image):
        skips, x = [], image
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for block, skip in zip(self.up, reversed(skips)):
            x = block(torch.cat([F.interpolate(x, scale_factor=2), skip], 1))
        return self.head(x)


class TwoTowers(nn.Module):
    """Two inputs, two branches, two outputs."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.text = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(3))
        self.pixels = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3))
        self.text_head, self.pixel_head = nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, image, ids):
        x, y = image, self.words(ids).mean(1)
        for pixels, text in zip(self.pixels, self.text):
            x, y = pixels(x), text(y)
        x, y = self.pixel_head(x), self.text_head(y)
        return {"similarity": F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T, "scale": x.square().mean()}


class Shared(nn.Module):
    """The embedding is the head, and one block runs twice."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.position = nn.Parameter(torch.randn(TOKENS, 16, generator=generator(0)) * 0.1)
        self.block = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())
        self.middle = nn.Linear(16, 16)
        self.head = nn.Linear(16, WORDS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids) + self.position
        x = x + self.block(x)
        x = x + self.middle(x)
        x = x + self.block(x)
        return self.head(x)


class Lists(nn.Module):
    """Lists of tensors between layers."""

    class Pyramid(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, parts):
            return [torch.tanh(self.one(parts[0])), self.two(parts[0])] + list(parts[1:])

    class Join(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8 + 4 + 4, CLASSES)

        def forward(self, parts, extra):
            return self.linear(torch.cat([parts[0], parts[1], extra["last"]], -1))

    def __init__(self):
        super().__init__()
        self.first, self.second, self.join = self.Pyramid(), self.Pyramid(), self.Join()

    def forward(self, x):
        parts = self.second(self.first([x]))
        return self.join(parts, {"last": parts[-1]})


class Dropped(nn.Module):
    """Dropout in and between layers."""

    def __init__(self, p=0.3):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Dropout(p))
                                      for _ in range(4)])
        self.head, self.p = nn.Linear(16, CLASSES), p

    def forward(self, x):
        return self.head(F.dropout(self.layers(x), self.p, self.training))


class Straight(torch.autograd.Function):
    """A straight-through estimator: the gradient is none of what forward computes."""

    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@dataclasses.dataclass
class State:
    x: torch.Tensor
    count: int = 0


class Odds(nn.Module):
    """What code between layers may do: a backward of its own, autocast, weights in lists, dataclasses, a complex
    gradient, and weights that are not trained."""

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, state):
            return State(torch.tanh(self.linear(state.x)), state.count + 1)

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.steps = nn.ModuleList(self.Step() for _ in range(2))
        self.down = nn.ParameterList(nn.Parameter(torch.randn(8, 2, generator=generator(i))) for i in range(2))
        self.up = nn.ParameterList(nn.Parameter(torch.randn(2, 8, generator=generator(i))) for i in range(2))
        self.classes, self.size = nn.Linear(8, CLASSES), nn.Linear(8, 1)

    def forward(self, x):
        state = State(self.frozen(x))
        for step, down, up in zip(self.steps, self.down, self.up):
            state = step(State(state.x + state.x @ down @ up, state.count))
        wave = torch.fft.rfft(state.x)
        x = Straight.apply(torch.fft.irfft(wave * wave.conj(), n=8)) + state.x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            classes = self.classes(x)
        return classes.float(), self.size(x)


class Translator(nn.Module):
    """Attention between two sequences, with a mask that all samples share and one that each has; an input named as an argument
    of torch's schedules."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2,
                                             enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2)
        self.head = nn.Linear(16, WORDS)

    def forward(self, source, target, *, mask, padding=None):
        memory = self.encoder(self.words(source), src_key_padding_mask=padding)
        return self.head(self.decoder(self.words(target), memory, tgt_mask=mask, memory_key_padding_mask=padding))


@dataclasses.dataclass
class Scaled:
    x: torch.Tensor
    scale: torch.Tensor


@dataclasses.dataclass
class Classes:
    numbers: torch.Tensor


class Pairs(nn.Module):
    """Takes and gives a dataclass; what crosses cuts is in memory otherwise than it is read."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(4))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, batch, *, factor):
        x = batch.x.view(-1, 4, 4)
        for layer in self.layers:
            x = (x + layer(x) * batch.scale[:, None, None]).permute(0, 2, 1) * factor
        return Scaled(self.head(x.flatten(1)), batch.scale)


# --- Factories

def unet():
    return Unet()


def towers():
    return TwoTowers()


def shared():
    return Shared()


def lists():
    return Lists()


def dropped():
    return Dropped()


def undropped():
    return Dropped(0.0)


def odds():
    return Odds()


def translator():
    return Translator()


def pairs():
    return Pairs()


def vgg():
    import torchvision
    features = torchvision.models.vgg.make_layers([8, "M", 8, 8, "M", 16, "M", 16, "M", 16, "M"])
    # Its own classifier has a hundred million weights.
    model = torchvision.models.vgg.VGG.__new__(torchvision.models.vgg.VGG)
    nn.Module.__init__(model)
    model.features, model.avgpool = features, nn.AdaptiveAvgPool2d(7)
    model.classifier = nn.Sequential(nn.Linear(16 * 49, 32), nn.ReLU(True), nn.Dropout(0.0), nn.Linear(32, CLASSES))
    return model


def resnet():
    import torchvision
    return torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [1, 2, 1, 1], num_classes=CLASSES,
                                     width_per_group=8)


def inception():
    import torchvision
    return torchvision.models.inception_v3(num_classes=CLASSES, aux_logits=False, init_weights=False, dropout=0.0)


def vit():
    import torchvision
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=4, num_heads=2, hidden_dim=16,
                                                mlp_dim=32, num_classes=CLASSES)


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 1)], num_classes=CLASSES)


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    return T5ForConditionalGeneration(T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=WORDS,
                                               dropout_rate=0.0, use_cache=False, decoder_start_token_id=0, pad_token_id=0))


def olmoe():
    from transformers import OlmoeConfig, OlmoeForCausalLM
    return OlmoeForCausalLM(OlmoeConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
                                        intermediate_size=16, num_experts=4, num_experts_per_tok=2, vocab_size=WORDS,
                                        use_cache=False, pad_token_id=0, bos_token_id=0, eos_token_id=0))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=16, n_head=2, vocab_size=WORDS, n_positions=TOKENS,
                                      use_cache=False, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, bos_token_id=0,
                                      eos_token_id=0))


def qwen3():
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM(Qwen3Config(num_hidden_layers=4, hidden_size=16, intermediate_size=32, head_dim=8,
                                        num_attention_heads=2, num_key_value_heads=1, vocab_size=WORDS, use_cache=False,
                                        bos_token_id=0, eos_token_id=0))


# --- Inputs, losses and data

def images(size):
    def example_inputs(samples):
        return torch.randn(samples, 3, size, size, generator=generator(0))

    def data(step, samples):
        random = generator(1 + step)
        return torch.randn(samples, 3, size, size, generator=random), \
            torch.randint(0, CLASSES, (samples,), generator=random)
    return example_inputs, data


def vectors(width):
    def example_inputs(samples):
        return torch.randn(samples, width, generator=generator(0))

    def data(step, samples):
        random = generator(1 + step)
        return torch.randn(samples, width, generator=random), torch.randint(0, CLASSES, (samples,), generator=random)
    return example_inputs, data


def odd_data(step, samples):
    x, target = list_data(step, samples)
    return x, {"class": target, "size": x.sum(-1, keepdim=True)}


def odd_loss(output, target):
    return F.cross_entropy(output[0], target["class"]) + F.mse_loss(output[1], target["size"])


image_inputs, image_data = images(32)
inception_inputs, inception_data = images(75)
list_inputs, list_data = vectors(8)
vector_inputs, vector_data = vectors(16)


def pixel_data(step, samples):
    image, _ = image_data(step, samples)
    return image, torch.randint(0, CLASSES, (samples, 32, 32), generator=generator(1 + step))


def token_inputs(samples):
    return torch.randint(0, WORDS, (samples, TOKENS), generator=generator(0))


def token_data(step, samples):
    ids = torch.randint(0, WORDS, (samples, TOKENS + 1), generator=generator(1 + step))
    return ids[:, :-1], ids[:, 1:].contiguous()


def masked_inputs(samples):
    mask = torch.ones(samples, TOKENS, dtype=torch.int64)
    mask[:, -3:] = 0
    return {"input_ids": token_inputs(samples), "attention_mask": mask}


def masked_data(step, samples):
    ids, target = token_data(step, samples)
    return masked_inputs(samples) | {"input_ids": ids}, target


def tower_inputs(samples):
    return torch.randn(samples, 16, generator=generator(0)), token_inputs(samples)


def tower_data(step, samples):
    random = generator(1 + step)
    return (torch.randn(samples, 16, generator=random), token_data(step, samples)[0]), torch.arange(samples)


def translator_inputs(samples):
    padding = torch.zeros(samples, TOKENS)
    padding[:, -2:] = float("-inf")
    return {"source": token_inputs(samples), "target": token_inputs(samples).flip(1).contiguous(),
            "mask": torch.triu(torch.full((TOKENS, TOKENS), float("-inf")), 1), "padding": padding}


def translator_data(step, samples):
    ids, target = token_data(step, samples)
    given = translator_inputs(samples) | {"source": ids.flip(1).contiguous(), "target": ids}
    return {name: given[name] for name in reversed(given)}, target  # by name: in any order


def pair_inputs(samples):
    return {"batch": Scaled(vector_inputs(samples), torch.ones(samples)), "factor": torch.tensor(2.0)}


def pair_data(step, samples):
    x, target = vector_data(step, samples)
    return {"batch": Scaled(x, x[:, 0].contiguous()), "factor": torch.tensor(0.5)}, Classes(target)


def pair_loss(output, target):
    return F.cross_entropy(output.x, target.numbers) + output.scale.mean()


def t5_inputs(samples):
    return {"input_ids": token_inputs(samples), "decoder_input_ids": token_inputs(samples).flip(1).contiguous()}


def t5_data(step, samples):
    ids, target = token_data(step, samples)
    return {"decoder_input_ids": ids, "input_ids": ids.flip(1).contiguous()}, target


def class_loss(output, target):
    return F.cross_entropy(output, target)


def other_loss(output, target):
    return 2 * class_loss(output, target)


def word_loss(output, target):
    logits = output if isinstance(output, torch.Tensor) else output.logits
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def tower_loss(output, target):
    return F.cross_entropy(output["similarity"], target - target[0]) + output["scale"]


#: name: factory, inputs, loss, data
MODELS = {
    "unet": ("unet", "image_inputs", "class_loss", "pixel_data"),
    "towers": ("towers", "tower_inputs", "tower_loss", "tower_data"),
    "shared": ("shared", "token_inputs", "word_loss", "token_data"),
    "lists": ("lists", "list_inputs", "class_loss", "list_data"),
    "dropped": ("dropped", "vector_inputs", "class_loss", "vector_data"),
    "undropped": ("undropped", "vector_inputs", "class_loss", "vector_data"),
    "odds": ("odds", "list_inputs", "odd_loss", "odd_data"),
    "translator": ("translator", "translator_inputs", "word_loss", "translator_data"),
    "pairs": ("pairs", "pair_inputs", "pair_loss", "pair_data"),
    "convnext": ("convnext", "image_inputs", "class_loss", "image_data"),
    "t5": ("t5", "t5_inputs", "word_loss", "t5_data"),
    "olmoe": ("olmoe", "token_inputs", "word_loss", "token_data"),
    "vgg": ("vgg", "image_inputs", "class_loss", "image_data"),
    "resnet": ("resnet", "image_inputs", "class_loss", "image_data"),
    "inception": ("inception", "inception_inputs", "class_loss", "inception_data"),
    "vit": ("vit", "image_inputs", "class_loss", "image_data"),
    "gpt2": ("gpt2", "token_inputs", "word_loss", "token_data"),
    "gpt2-masked": ("gpt2", "masked_inputs", "word_loss", "masked_data"),
    "qwen3": ("qwen3", "token_inputs", "word_loss", "token_data"),
}
